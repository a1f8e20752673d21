import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints "MBean, attribute, value", tab-separated, of all MBeans that fit a pattern. */
public class Mbeans {
    public static void main(String[] arguments) throws Exception {
        try (var connector = JMXConnectorFactory.connect(new JMXServiceURL(arguments[0]))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            for (ObjectName name : server.queryNames(new ObjectName(arguments[1]), null)) {
                for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes()) {
                    Object value = server.getAttribute(name, attribute.getName());
                    System.out.println(name + "\t" + attribute.getName() + "\t" + value);
                }
            }
        }
    }
}
