import java.util.Map;
import java.util.TreeMap;
import kafka.server.KafkaConfig;

/** The default of every config that Apache Kafka's own class knows: name, tab, value. */
public class KafkaDefaults {
    public static void main(String[] arguments) {
        Map<String, Object> defaults = new TreeMap<>(KafkaConfig.configDef().defaultValues());
        defaults.forEach((name, value) -> System.out.println(name + "\t" + value));
    }
}
