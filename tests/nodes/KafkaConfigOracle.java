import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.cluster.EndPoint;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.utils.Utils;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.jdk.javaapi.OptionConverters;

/**
 * What Apache Kafka's own class says of configurations: one JSON object of properties a line on
 * standard input, one JSON object a line on standard output.
 *
 * <p>{@code refused} is the message of a refusal, by KafkaConfig or by what a broker does with it
 * at its start: make the address of each socket that it is to bind. Otherwise the object has what
 * the broker would have made of the properties.
 */
public class KafkaConfigOracle {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Properties properties = new Properties();
            properties.putAll(json.readValue(line, Map.class));
            output.println(json.writeValueAsString(verdict(properties)));
        }
        output.flush();
    }

    private static Map<String, Object> verdict(Properties properties) {
        Map<String, Object> said = new LinkedHashMap<>();
        try {
            KafkaConfig config = KafkaConfig.fromProps(properties, false);
            List<EndPoint> control = new ArrayList<>();
            OptionConverters.toJava(config.controlPlaneListener()).ifPresent(control::add);
            said.put("listeners", rows(list(config.listeners())));
            said.put("advertised", rows(list(config.effectiveAdvertisedBrokerListeners())));
            said.put("inter_broker", config.interBrokerListenerName().value());
            said.put("control_plane", rows(control));
            said.put("data_plane", rows(list(config.dataPlaneListeners())));
            for (EndPoint bound : list(config.listeners())) {
                address(bound);
            }
        } catch (Exception refusal) {
            said.clear();
            said.put("refused", String.valueOf(refusal.getMessage()));
        }
        return said;
    }

    /** As kafka.network.Acceptor makes it, but that no name is looked up. */
    private static InetSocketAddress address(EndPoint bound) {
        return Utils.isBlank(bound.host())
            ? new InetSocketAddress(bound.port())
            : InetSocketAddress.createUnresolved(bound.host(), bound.port());
    }

    private static List<EndPoint> list(Seq<EndPoint> endPoints) {
        return CollectionConverters.asJava(endPoints);
    }

    /** [name, protocol, host, port], with an empty host for none. */
    private static List<List<Object>> rows(List<EndPoint> endPoints) {
        List<List<Object>> rows = new ArrayList<>();
        for (EndPoint endPoint : endPoints) {
            rows.add(List.of(
                endPoint.listenerName().value(),
                endPoint.securityProtocol().name,
                endPoint.host() == null ? "" : endPoint.host(),
                endPoint.port()));
        }
        return rows;
    }
}
