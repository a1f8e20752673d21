import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;

/**
 * What java.util.Properties reads: one text in base64 a line on standard input, one line of entries
 * on standard output, key and value in base64 with a colon between;
 * "refused" for a text that it does not take.
 */
public class PropertiesOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder output = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            byte[] text = Base64.getDecoder().decode(line);
            Properties properties = new Properties();
            try {
                properties.load(new StringReader(new String(text, StandardCharsets.UTF_8)));
            } catch (IllegalArgumentException refusal) {
                output.append("refused\n");
                continue;
            }
            for (String name : properties.stringPropertyNames()) {
                output.append(encoded(name)).append(':');
                output.append(encoded(properties.getProperty(name))).append(' ');
            }
            output.append('\n');
        }
        System.out.print(output);
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
