package vectors;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;

/** Writes the vectors: arguments are the file to write and the folder of rule files. */
public final class Vectors {

    private static final ObjectMapper JSON = new ObjectMapper()
        .configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true);

    public static void main(final String[] args) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        Map<String, List<?>> lists = new LinkedHashMap<>();
        lists.put("routes", new Routes().numbered());
        lists.put("expressions", new Expressions().all());
        lists.put("columns", new Columns().all());
        lists.put("intervals", new Intervals().all());
        lists.put("rows", new EndToEnd().all(new File(args[1])));
        lists.put("wide", new EndToEnd().wide(new File(args[1])));
        Map<String, Object> plain = new LinkedHashMap<>();
        plain.put("shardingsphere", "5.5.2");
        plain.put("java", System.getProperty("java.specification.version"));
        plain.put("values", Values.all());
        plain.put("few", Values.few());
        plain.put("moments", Moments.all());
        plain.put("hashes", hashes());
        plain.put("nodes", Routes.nodes());
        List<String> parts = new ArrayList<>();
        for (Map.Entry<String, Object> each : plain.entrySet()) {
            parts.add(text(each.getKey()) + ": " + text(each.getValue()));
        }
        for (Map.Entry<String, List<?>> each : lists.entrySet()) {
            parts.add(text(each.getKey()) + ": [\n" + lines(each.getValue()) + "\n]");
        }
        Files.writeString(Path.of(args[0]), "{\n" + String.join(",\n", parts) + "\n}\n");
        System.exit(0);
    }

    private static Map<String, List<Integer>> hashes() {
        Map<String, List<Integer>> result = new LinkedHashMap<>();
        Values.all().forEach((type, values) -> {
            List<Integer> hashes = new ArrayList<>();
            values.forEach(value -> hashes.add(Values.parse(type, value).hashCode()));
            result.put(type, hashes);
        });
        return result;
    }

    private static String lines(List<?> items) throws JsonProcessingException {
        List<String> result = new ArrayList<>();
        for (Object each : items) {
            result.add(text(each));
        }
        return String.join(",\n", result);
    }

    private static String text(Object value) throws JsonProcessingException {
        return JSON.writeValueAsString(value);
    }
}
