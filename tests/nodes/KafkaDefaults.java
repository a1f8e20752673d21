import java.util.Map;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Every config that Apache Kafka's own class knows: name, default, type, allowed; tabs between. */
public class KafkaDefaults {
    public static void main(String[] arguments) {
        Map<String, ConfigDef.ConfigKey> keys = new TreeMap<>(KafkaConfig.configDef().configKeys());
        keys.forEach((name, key) -> System.out.println(String.join(
            "\t", name, text(key.defaultValue), text(key.type), text(key.validator))));
    }

    private static String text(Object value) {
        return String.valueOf(value);
    }
}
