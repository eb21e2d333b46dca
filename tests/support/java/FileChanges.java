import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/** A catalog that knows the changes of its tables, in the lines of a file for each: version,kind,id,city. */
public class FileChanges implements TableCatalog {
  static final StructType SCHEMA =
      new StructType()
          .add("id", DataTypes.LongType, false)
          .add("city", DataTypes.StringType)
          .add("_change_type", DataTypes.StringType, false)
          .add("_commit_version", DataTypes.LongType, false)
          .add("_commit_timestamp", DataTypes.TimestampType, false);

  private String name;
  private Path home;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.home = Paths.get(options.get("home"));
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Changelog loadChangelog(
      Identifier table, ChangelogContext context, CaseInsensitiveStringMap options) {
    return new Log(home.resolve(table.name()).toString());
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    return new Identifier[0];
  }

  @Override
  public Table loadTable(Identifier table) {
    throw new UnsupportedOperationException("only the changes of a table are known");
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean dropTable(Identifier table) {
    throw new UnsupportedOperationException();
  }

  @Override
  public void renameTable(Identifier table, Identifier to) {
    throw new UnsupportedOperationException();
  }

  static List<String> lines(String file) {
    try {
      return Files.readAllLines(Paths.get(file));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  record Log(String file) implements Changelog, Scan {
    @Override
    public String name() {
      return file;
    }

    @Override
    public Column[] columns() {
      return Arrays.stream(SCHEMA.fields())
          .map(field -> Column.create(field.name(), field.dataType(), field.nullable()))
          .toArray(Column[]::new);
    }

    @Override
    public boolean containsCarryoverRows() {
      return false;
    }

    @Override
    public boolean containsIntermediateChanges() {
      return true;
    }

    @Override
    public boolean representsUpdateAsDeleteAndInsert() {
      return true;
    }

    @Override
    public NamedReference[] rowId() {
      return new NamedReference[] {FieldReference.apply("id")};
    }

    @Override
    public NamedReference rowVersion() {
      return FieldReference.apply("_commit_version");
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return () -> this;
    }

    @Override
    public StructType readSchema() {
      return SCHEMA;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return new Lines(file);
    }
  }

  /** A number of lines. */
  static class Line extends Offset {
    final int number;

    Line(int number) {
      this.number = number;
    }

    @Override
    public String json() {
      return Integer.toString(number);
    }
  }

  record Lines(String file) implements MicroBatchStream {
    @Override
    public Offset initialOffset() {
      return new Line(0);
    }

    @Override
    public Offset latestOffset() {
      return new Line(lines(file).size());
    }

    @Override
    public Offset deserializeOffset(String json) {
      return new Line(Integer.parseInt(json.trim()));
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      return new InputPartition[] {new Part(file, ((Line) start).number, ((Line) end).number)};
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return new Rows();
    }

    @Override
    public void commit(Offset end) {}

    @Override
    public void stop() {}
  }

  record Part(String file, int start, int end) implements InputPartition {}

  static class Rows implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      Part part = (Part) partition;
      Iterator<String> rest = lines(part.file()).subList(part.start(), part.end()).iterator();
      return new PartitionReader<InternalRow>() {
        private InternalRow row;

        @Override
        public boolean next() {
          if (!rest.hasNext()) {
            return false;
          }
          String[] parts = rest.next().split(",");
          long version = Long.parseLong(parts[0]);
          UTF8String kind = UTF8String.fromString(parts[1]);
          UTF8String city = UTF8String.fromString(parts[3]);
          Object[] cells = {Long.parseLong(parts[2]), city, kind, version, version * 1_000_000};
          row = new GenericInternalRow(cells);
          return true;
        }

        @Override
        public InternalRow get() {
          return row;
        }

        @Override
        public void close() {}
      };
    }
  }
}
