"""Functions, values, types, options and formats by their names in SQL, Spark or Python, and what to write here."""

from __future__ import annotations

from collections.abc import Mapping

from mrql.parser.sql_hints import NESTED_TYPES

_CONDITION = "`if c then a else b`"
_ORDERED = "`first(select x from x in g order by x.A)`, or `min_by(x, x.A)`"
_NUMBERED = "`(x, n) in row_number(select x from x in X order by x.A)`"
_LAGGED = "`(x, y) in lag(select x from x in X order by x.A)`, or `lead`"
_RUNNING = "`(x, s) in running_sum(select (x, x.B) from x in X order by x.A)`"
_MOST = "`(select (k, count(x)) from x in X group by k: x.A order by count(x) desc limit 3)`"
_CAST = "`e as string`, or another type"
_BUCKET = '`date_trunc("hour", t)` in the `group by`, or `from_unix(to_unix(t) / 900 * 900)`, of 15 minutes'
_BITS = "nothing: the bits of a number are not looked at; a function in Python is imported (docs/language.md)"
_MADE = '`source(csv, "file.csv", ",", header)`, or `source(parquet, "file.parquet")`'
_CLOCK = 'nothing: an answer depends on the data alone; write a day as `date("2026-01-31")`'


def _said(here: str) -> str:
    without = here.removeprefix("nothing: ")
    return f"here it is {here}" if without == here else f"there is none here: {without}"


def _here(*written: tuple[str, str]) -> Mapping[str, str]:
    """The hints by names in lower case."""
    return {name: _said(here) for names, here in written for name in names.split()}


CASTS_HERE: Mapping[str, str] = {
    **{name: name for name in ("int", "long", "float", "double", "bool", "string")},
    **dict.fromkeys(("str", "to_string", "tostring", "varchar", "text", "char"), "string"),
    **dict.fromkeys(("integer", "smallint"), "int"),
    "bigint": "long",
    "real": "float",
    "boolean": "bool",
}
"""Types that other systems use as functions, by their names there in lower case."""

HERE = _here(
    ("mean average", "`avg(e)`"),
    ("std stdev stddev_samp pstdev", "`stddev(e)`, or `stddev_pop(e)`"),
    ("var var_samp pvariance", "`variance(e)`"),
    ("var_pop", "`variance_pop(e)`"),
    ("covar_samp covariance cov", "`covar(x, y)`"),
    ("correlation", "`corr(x, y)`"),
    (
        "quantile percentile_cont percentile_approx approx_percentile approx_quantile tdigest",
        "`percentile(e, 0.9)`, exact",
    ),
    (
        "approx_count_distinct approx_distinct countdistinct nunique hll hll_sketch_agg hll_sketch_estimate ndv uniq",
        "`count_distinct(e)`, which is exact",
    ),
    ("top_k topk approx_top_k topn top_n most_common value_counts", _MOST),
    ("rollup cube grouping_sets", "a select for each set of keys, joined by `union`"),
    ("argmax arg_max", "`max_by(x, key)`"),
    ("argmin arg_min", "`min_by(x, key)`"),
    ("group_concat listagg string_join concat_ws array_join", '`string_agg(e, ", ")`'),
    ("array_agg collect_list list", "`collect(e)`, or `sort(e)` for a list"),
    ("collect_set set", "`distinct(e)`"),
    ("bool_and every logical_and", "`all(e)`"),
    ("bool_or any logical_or", "`some(e)`"),
    ("any_value", "`min(e)`"),
    ("skewness skew", "`let m = avg(e) in avg(select pow(x - m, 3) from x in e) / pow(stddev_pop(e), 3)`"),
    ("kurtosis kurt", "`let m = avg(e) in avg(select pow(x - m, 4) from x in e) / pow(variance_pop(e), 2) - 3`"),
    ("product", r"one of your own, defined before: `aggregation product(\(x, y). x * y, 1): long;`"),
    ("regr_slope", "`covar_pop(y, x) / variance_pop(x)`"),
    ("percentile_disc", "`percentile(e, 0.9)`, which is between two elements where it meets none"),
    ("bit_and bit_or bit_xor bit_count", _BITS),
    ("count_if countif", "`count(select x from x in e where c)`"),
    ("sum_if sumif", "`sum(select x.A from x in e where c)`"),
    ("first_value last_value nth_value", _ORDERED),
    ("row_index zip_with_index zipwithindex enumerate monotonically_increasing_id", _NUMBERED),
    ("shift diff previous", _LAGGED),
    ("cumsum cumulative_sum sum_over scan", _RUNNING),
    ("cummax", "`running_max(select (x, x.B) from x in X order by x.A)`"),
    ("cummin", "`running_min(select (x, x.B) from x in X order by x.A)`"),
    ("sliding moving_avg moving_average", "`(x, xs) in rolling((select x from x in X order by x.A), 3)`"),
    ("cast try_cast convert to_number", _CAST),
    ("decimal numeric to_decimal", "`e as decimal(12, 2)`; a constant is written `1.50m`"),
    ("nvl ifnull", "`coalesce(e, f)`"),
    ("isnull isna", "`is_null(e)`"),
    ("notnull isnotnull", "`not is_null(e)`"),
    ("isnan", "`is_nan(x)`"),
    ("len char_length character_length", "`length(s)` of a text, `size(e)` of a collection"),
    ("cardinality array_length array_size", "`size(e)`"),
    ("to_hex", "`hex(b)`"),
    ("from_hex", "`unhex(s)`"),
    ("to_base64", "`base64(b)`"),
    ("from_base64", "`unbase64(s)`"),
    ("octet_length", "`length(b)` of bytes, `length(s as binary)` of a text"),
    ("encode to_binary", "`s as binary`, which is UTF-8, or `unhex(s)`, `unbase64(s)`"),
    ("substr mid", "`substring(s, from, to)`"),
    ("ucase to_upper", "`upper(s)`"),
    ("lcase to_lower", "`lower(s)`"),
    ("strip", "`trim(s)`"),
    ("instr locate position strpos find", "`index(s, t)`, from 0 on"),
    ("rlike regexp_matches regexp_match", "`regexp_like(s, pattern)`"),
    ("to_date", "`date(s)`, or `parse_date(s, pattern)`"),
    ("to_timestamp strptime", "`timestamp(s)`, or `parse_timestamp(s, pattern)`"),
    ("to_char strftime", "`date_format(d, pattern)`"),
    ("extract date_part datepart", "`year(d)`, `month(d)`, `day(d)` and so on"),
    ("dateadd", "`add_days(d, n)`, `add_months(d, n)`"),
    ("hours_between", "`seconds_between(t, u) / 3600`"),
    ("minutes_between", "`seconds_between(t, u) / 60`"),
    ("days_between", "`date_diff(d, e)`"),
    ("months_between", "`(year(d) - year(e)) * 12 + month(d) - month(e)`"),
    ("years_between", "`year(d) - year(e)`"),
    ("timestampdiff timestamp_diff", "`seconds_between(t, u)`, or `date_diff(d, e)` of dates"),
    ("interval make_interval", "`add_days(d, 1)`, `add_months(d, 1)`, or `add_hours(t, 1)`"),
    ("dayofmonth day_of_month", "`day(d)`"),
    ("weekday isodow", "`day_of_week(d)`"),
    ("weekofyear week_of_year isoweek", "`week(d)`"),
    ("unix_timestamp to_unixtime epoch", "`to_unix(t)`"),
    ("from_unixtime timestamp_seconds", "`from_unix(n)`"),
    ("window tumble time_bucket date_bin", _BUCKET),
    ("now current_date current_timestamp today getdate sysdate", _CLOCK),
    ("random rand uuid", "nothing: an answer depends on the data alone"),
    ("iif iff decode when", _CONDITION),
    ("explode unnest posexplode", "in the `from`: `from x in X, y in x.Ys`"),
    ("generate_series sequence", "`a..b`"),
    ("array_contains list_contains", "`x in e`"),
    ("sort_array array_sort list_sort sorted", "`sort(e)`"),
    ("ceiling", "`ceil(x)`"),
    ("truncate trunc", "`floor(x)`, or `date_trunc(unit, d)`"),
    ("map filter flatmap", "`select e from x in X where c`"),
    ("isin includes", "`x in e`"),
    ("print println printf", "`trace(e)`"),
    ("table read_csv read_parquet read_json", _MADE),
    (
        "input_file_name input_file",
        "nothing: a row does not know its file; a directory `dt=2024-01-01` is a column of the rows in it",
    ),
)

NAMES_HERE = _here(
    ("all", "each of them, as in `group by x.A, x.B`"),
    ("none nil undefined nullptr", "`null`; `is_null(e)` asks whether a value is missing"),
    ("nan", '`"NaN" as double`'),
    ("inf infinity", '`"Infinity" as double`'),
    ("current_date current_timestamp now today sysdate", _CLOCK),
)

TYPES_HERE = {
    **_here(
        ("str char nchar nvarchar character clob utf8 object uuid enum", "`string`"),
        ("number num money", "`double`, `long`, or `decimal(12, 2)`"),
        ("int64 uint32", "`long`"),
        ("int32 int16 uint16 uint8", "`int`"),
        ("int8", "`long`, if it has 8 bytes, and `int`, if it has 8 bits"),
        ("uint64", "`decimal(20)`, or `long`, where no value is larger"),
        ("float64", "`double`"),
        ("float32", "`float`"),
        ("timestamptz timestamp_ltz", "`timestamp`: what the clock shows in UTC"),
        ("time", "`string`: a time without its day has no type"),
        ("interval", "`long`: a span of time is a number, of days or of seconds"),
        ("json variant", "`any`"),
    ),
    **{name: _said(here) for name, here in NESTED_TYPES.items()},
}

_ASIDE = "`--malformed quarantine --quarantine DIR`, which keeps malformed rows aside; else the first one is an error"
_PATTERN = 'the path: `source(csv, "in/*.csv", …)` is a pattern, and partitions in a directory are read'
_FOUND = "nothing: types are found where no `type(…)` is given"
_UTF8 = "nothing: text is UTF-8; convert other files, as by `iconv -f latin1 -t utf-8`"
_BLANKS = "nothing: blanks around a field are no part of it"

OPTIONS_HERE = _here(
    ("sep delimiter separator delim fielddelimiter", 'the text behind the path: `source(csv, "file.csv", ";")`'),
    ("encoding charset", _UTF8),
    ("inferschema infer_schema infer mergeschema preferdate", _FOUND),
    ("samplingratio sample_size samplesize sample_rows infer_schema_length", "`sample(10000)`, a number of rows"),
    ("schema ddl columns names dtype dtypes", "`type(<id: long, name: string>)`"),
    ("mode columnnameofcorruptrecord badrecordspath on_bad_lines error_bad_lines rescueddatacolumn", _ASIDE),
    ("ignorecorruptfiles ignoremissingfiles", _ASIDE),
    ("linesep lineterminator recorddelimiter", r"nothing: a line ends with `\n`, `\r\n` or `\r`"),
    ("ignoreleadingwhitespace ignoretrailingwhitespace skipinitialspace", _BLANKS),
    ("emptyvalue", 'nothing: `""` is the empty text, and an empty field without quotes is missing'),
    ("na_values nullvalues null_values nullstr", '`nullValue("NA", "-")`'),
    ("nanvalue positiveinf negativeinf", "nothing: `NaN`, `Infinity` and `-Infinity` are numbers"),
    ("quotechar", '`quote("\'")`'),
    ("escapechar", r'`escape("\\")`'),
    ("parse_dates date_format", '`dateFormat("dd.MM.yyyy")`'),
    ("timestampntzformat", '`timestampFormat("dd.MM.yyyy HH:mm:ss")`'),
    ("decimal thousands", '`locale("de-DE")`'),
    ("timezone tz", "nothing: a timestamp with a zone becomes that of UTC, one without is as it is written"),
    ("compression codec", "nothing: files that end in `.gz`, `.bz2` and `.zst` are unpacked"),
    ("recursivefilelookup pathglobfilter basepath filename", _PATTERN),
    ("maxfilespertrigger", "`mrql stream --max-files N`"),
    ("latestfirst", "nothing: a stream reads the oldest files first, and with `--max-files N` so many in a batch"),
    ("trigger processingtime", "`mrql stream --interval S`, or `--once`, to stop when what is there has been read"),
    ("checkpointlocation", "`mrql stream --checkpoint DIR`"),
    ("watermark withwatermark", "nothing: rows may come in any order, and none is too late"),
    ("cleansource sourcearchivedir", "nothing: with `--rewrites keep-removed` files that were read may be removed"),
    ("modifiedafter modifiedbefore", 'a pattern of names: `source(csv, "in/2024-*.csv", …)`'),
    ("usecols", "`type(<id: long, name: string>), header`: columns that are not in the type are not read"),
    ("nrows", "`limit`: `select x from x in X order by x.A limit 10`"),
    ("option options", 'the name of the option by itself, behind the path: `header`, `quote("\'")`'),
    ("schemaevolutionmode", "`failOnNewColumns`, or nothing: without a type, new columns are added to the rows"),
    ("maxcolumns maxcharspercolumn", "nothing: a record has as many fields, and as long ones, as it has"),
    ("primitivesasstring prefersdecimal", "`type(<A: string, B: decimal(10, 2)>)`"),
    (
        "dropfieldifallnull",
        "nothing: a field that is always null is of type `any`, and not read where `type(…)` lacks it",
    ),
    (
        "allowcomments allowunquotedfieldnames allowsinglequotes allownumericleadingzeros allownonnumericnumbers"
        " allowbackslashescapinganycharacter allowunquotedcontrolchars",
        "nothing: JSON is read as the standard has it, and what is written otherwise is malformed",
    ),
    ("wholetext", "nothing: a row of `text` is a line"),
    ("attributeprefix valuetag", "`x.@a` for an attribute of an element, `text(x)` for its text"),
    ("rowtag", 'in braces: `source(xml, "file.xml", {"tag"})`'),
    ("enforceschema", "`header`: columns are found by their names"),
    ("lines orient", "`multiline`, where a file is one document; else each line is a row"),
    (
        "skiprows skip skiplines",
        '`header` for a first record of names, `comment("#")` for lines that begin with a sign',
    ),
)

_ROWS_OF_POSTGRESQL = (
    '`stream(postgresql, "postgresql://host/db?table=t&column=id")`, or a file that they are exported to'
)
_EXPORTED = "a file of another format that the rows are exported to: `source(parquet, …)`, `source(csv, …)`"

FORMATS_HERE = _here(
    ("tsv tab", r'`source(csv, "file.tsv", "\t")`'),
    ("jsonl ndjson jsonlines", '`source(json, "file.jsonl")`'),
    ("txt lines raw", '`source(text, "file.txt")`'),
    (
        "kafka kinesis pulsar",
        '`stream(adapter, "module:name", "…")`, or in Python `view.follow(points=spark.readStream…)`',
    ),
    ("jdbc postgres", _ROWS_OF_POSTGRESQL),
    ("avro excel xls xlsx sqlite sqlite3 duckdb mysql mongodb feather arrow pickle yaml protobuf", _EXPORTED),
    ("hudi", "`source(delta, …)` or `source(iceberg, …)` for a table with a log"),
)
"""Formats and connectors of other systems."""
