import java.io.File;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;

/** Writes three segments with Kafka's own LogSegment; the last one stays active and is not closed. */
public class WriteSegments {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> settings = new HashMap<>();
        settings.put("index.interval.bytes", "100");
        settings.put("segment.index.bytes", "4096");
        LogConfig config = new LogConfig(settings);
        File directory = new File(arguments[0]);
        CompressionType[] codecs = CompressionType.values();
        long offset = 0;
        for (int number = 0; number < 3; number++) {
            LogSegment segment = LogSegment.open(directory, offset, config, Time.SYSTEM, 0, false);
            for (int batch = 0; batch < 20; batch++) {
                Compression codec = Compression.of(codecs[batch % codecs.length]).build();
                long timestamp = 1700000000000L + (batch * 7 % 20) * 1000 + number;
                MemoryRecords records = MemoryRecords.withRecords(
                    RecordBatch.MAGIC_VALUE_V2, offset, codec,
                    new SimpleRecord(timestamp, "key".getBytes(), ("value " + offset).getBytes()),
                    new SimpleRecord(timestamp + 1, "key".getBytes(), new byte[40]));
                segment.append(offset + 1, records);
                offset += 2;
            }
            segment.flush();
            if (number < 2) {
                segment.onBecomeInactiveSegment();
                segment.close();
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
