//! Apache Parquet: a folder with a table for each event that has records, whose columns have the types of its fields. Rows are kept until there are many, then written by
//! columns.

use super::conversion::{Conversion, ConversionFormat, RecordingContext};
use super::names::Names;
use super::place::{NewFolder, OutputPath};
use crate::error::Result;
use crate::event::EventClass;
use crate::export::json_value;
use crate::layout::{Base, Field, FieldType};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::Value;
use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::Type;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::sync::Arc;

pub(super) const FORMAT: ConversionFormat = ConversionFormat {
    name: "parquet",
    about: "a folder of Apache Parquet tables, one for each event, for DuckDB, pandas, Spark and others",
    file: "kestrel.parquet",
    begin: |recording, place| Ok(Box::new(Parquet::new(recording, place)?)),
};

/// Columns before the fields.
const COLUMNS: [&str; 5] = ["time", "cpu", "pid", "tid", "comm"];
/// Rows that are kept in memory, of all tables; and those of one that are written at once.
const KEPT: usize = 1 << 18;
const GROUP: usize = 1 << 16;

struct Parquet {
    folder: NewFolder,
    symbols: Symbols,
    names: Names,
    tables: HashMap<u16, Table, foldhash::fast::RandomState>,
    /// Rows in memory.
    rows: usize,
}

struct Table {
    writer: SerializedFileWriter<BufWriter<File>>,
    time: Column,
    cpu: Column,
    pid: Column,
    tid: Column,
    comm: Column,
    /// With the indices of the fields.
    fields: Vec<(usize, Column)>,
    rows: usize,
}

/// Values of a column, and how deep each is: 0 is none, then a value, or an empty list and its elements.
struct Column {
    values: Values,
    depths: Vec<i16>,
    /// 1 where an element follows another of its list.
    repeated: Vec<i16>,
}

enum Values {
    /// Integers of at most 4 bytes.
    Short(Vec<i32>),
    Long(Vec<i64>),
    Bool(Vec<bool>),
    Float(Vec<f64>),
    Text(Vec<ByteArray>),
    Longs(Vec<i64>),
    Strings(Vec<ByteArray>),
}

/// Parquet type of a column: its values, and its type without them.
struct Shape {
    physical: Physical,
    logical: Option<LogicalType>,
    values: Values,
}

impl Shape {
    fn integer(size: u8, signed: bool) -> Self {
        let bits = size.clamp(1, 8) as i8 * 8;
        let (physical, values) = match size {
            8 => (Physical::INT64, Values::Long(Vec::new())),
            _ => (Physical::INT32, Values::Short(Vec::new())),
        };
        Self {
            physical,
            logical: Some(LogicalType::integer(bits, signed)),
            values,
        }
    }

    fn text(values: Values) -> Self {
        Self {
            physical: Physical::BYTE_ARRAY,
            logical: Some(LogicalType::String),
            values,
        }
    }

    fn float() -> Self {
        Self {
            physical: Physical::DOUBLE,
            logical: None,
            values: Values::Float(Vec::new()),
        }
    }

    fn of(ty: &FieldType) -> Self {
        match ty {
            FieldType::Integer {
                base: Base::Float, ..
            }
            | FieldType::Float { .. } => Self::float(),
            &FieldType::Integer { size, signed, .. } => Self::integer(size, signed),
            FieldType::Pointer { symbolic: false } => Self::integer(8, false),
            FieldType::Bool => Self {
                physical: Physical::BOOLEAN,
                logical: None,
                values: Values::Bool(Vec::new()),
            },
            FieldType::Array { element, .. } => match **element {
                FieldType::Integer {
                    base: Base::Float, ..
                } => Self::text(Values::Strings(Vec::new())),
                FieldType::Integer { signed, .. } => Self {
                    values: Values::Longs(Vec::new()),
                    ..Self::integer(8, signed)
                },
                _ => Self::text(Values::Strings(Vec::new())),
            },
            FieldType::Stack { .. } | FieldType::StackCopy { .. } => Self::text(Values::Strings(Vec::new())),
            _ => Self::text(Values::Text(Vec::new())),
        }
    }

    /// The column's type in the schema.
    fn ty(&self, name: &str) -> Result<Type, ParquetError> {
        let plain = |name: &str, repetition| {
            Type::primitive_type_builder(name, self.physical)
                .with_repetition(repetition)
                .with_logical_type(self.logical.clone())
                .build()
        };
        if !matches!(self.values, Values::Longs(_) | Values::Strings(_)) {
            return plain(name, Repetition::OPTIONAL);
        }
        let element = plain("element", Repetition::REQUIRED)?;
        let list = Type::group_type_builder("list")
            .with_repetition(Repetition::REPEATED)
            .with_fields(vec![Arc::new(element)])
            .build()?;
        Type::group_type_builder(name)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(Some(LogicalType::List))
            .with_fields(vec![Arc::new(list)])
            .build()
    }

    fn column(self) -> Column {
        Column {
            values: self.values,
            depths: Vec::new(),
            repeated: Vec::new(),
        }
    }
}

impl Column {
    fn push(&mut self, value: Value<'_>, symbols: &Symbols) {
        if matches!(value, Value::Missing | Value::Fault) {
            self.repeated.push(0);
            return self.depths.push(0);
        }
        match &mut self.values {
            Values::Short(all) => all.push(value.as_i64().unwrap_or(0) as i32),
            Values::Long(all) => all.push(value.as_i64().unwrap_or(0)),
            Values::Bool(all) => all.push(value.as_i64().unwrap_or(0) != 0),
            Values::Float(all) => all.push(match value {
                Value::Float(value) => value,
                value => f64::from_bits(value.as_u64().unwrap_or(0)),
            }),
            Values::Text(all) => all.push(match value {
                Value::Text(text) => String::from_utf8_lossy(text).as_bytes().to_vec().into(),
                value => text(json_value(value, symbols)),
            }),
            Values::Longs(all) => {
                if let Value::Array(elements) = value {
                    let before = all.len();
                    all.extend(elements.iter().map(|element| element.as_i64().unwrap_or(0)));
                    let count = all.len() - before;
                    return self.list(count);
                }
                return self.list(0);
            }
            Values::Strings(all) => {
                let Json::Array(elements) = json_value(value, symbols) else {
                    return self.list(0);
                };
                let count = elements.len();
                all.extend(elements.into_iter().map(text));
                return self.list(count);
            }
        }
        self.depths.push(1);
        self.repeated.push(0);
    }

    /// Notes a list of so many elements.
    fn list(&mut self, elements: usize) {
        if elements == 0 {
            self.depths.push(1);
            self.repeated.push(0);
        }
        for index in 0..elements {
            self.depths.push(2);
            self.repeated.push(i16::from(index > 0));
        }
    }

    fn text(&mut self, value: Option<&str>) {
        self.depths.push(i16::from(value.is_some()));
        self.repeated.push(0);
        if let (Values::Text(all), Some(value)) = (&mut self.values, value) {
            all.push(value.as_bytes().to_vec().into());
        }
    }

    fn number(&mut self, value: u64) {
        match &mut self.values {
            Values::Short(all) => all.push(value as i32),
            Values::Long(all) => all.push(value.cast_signed()),
            _ => return,
        }
        self.depths.push(1);
        self.repeated.push(0);
    }

    /// Writes the values of the rows kept so far.
    fn write(&mut self, to: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let (depths, repeated) = (Some(self.depths.as_slice()), Some(self.repeated.as_slice()));
        match &mut self.values {
            Values::Short(all) => {
                to.typed::<Int32Type>().write_batch(all, depths, None)?;
                all.clear();
            }
            Values::Long(all) => {
                to.typed::<Int64Type>().write_batch(all, depths, None)?;
                all.clear();
            }
            Values::Bool(all) => {
                to.typed::<BoolType>().write_batch(all, depths, None)?;
                all.clear();
            }
            Values::Float(all) => {
                to.typed::<DoubleType>().write_batch(all, depths, None)?;
                all.clear();
            }
            Values::Text(all) => {
                to.typed::<ByteArrayType>().write_batch(all, depths, None)?;
                all.clear();
            }
            Values::Longs(all) => {
                to.typed::<Int64Type>().write_batch(all, depths, repeated)?;
                all.clear();
            }
            Values::Strings(all) => {
                to.typed::<ByteArrayType>().write_batch(all, depths, repeated)?;
                all.clear();
            }
        }
        self.depths.clear();
        self.repeated.clear();
        Ok(())
    }
}

/// A value of JSON as a text: a string without its quotes.
fn text(value: Json) -> ByteArray {
    match value {
        Json::String(text) => text.into_bytes().into(),
        other => other.to_string().into_bytes().into(),
    }
}

impl Table {
    fn new(event: &EventClass, file: BufWriter<File>) -> Result<Self, ParquetError> {
        let common = [
            Shape::integer(8, false),
            Shape::integer(4, false),
            Shape::integer(4, false),
            Shape::integer(4, false),
            Shape::text(Values::Text(Vec::new())),
        ];
        let mut types = Vec::new();
        for (name, shape) in COLUMNS.iter().zip(&common) {
            types.push(Arc::new(shape.ty(name)?));
        }
        let mut names: Vec<String> = COLUMNS.map(str::to_owned).to_vec();
        let mut fields = Vec::new();
        let is_shown = |(_, field): &(usize, &Field)| field.is_shown();
        for (index, field) in event.layout.fields().iter().enumerate().filter(is_shown) {
            let mut name = field.name.clone();
            // Names of columns are unique: a field of the event gives way to the column that all events have.
            while names.contains(&name) {
                name = format!("args.{name}");
            }
            let shape = Shape::of(&field.ty);
            types.push(Arc::new(shape.ty(&name)?));
            names.push(name);
            fields.push((index, shape.column()));
        }
        let schema = Type::group_type_builder("records").with_fields(types).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("kestrel {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(vec![KeyValue::new("event".to_owned(), event.name.clone())]))
            .build();
        let [time, cpu, pid, tid, comm] = common.map(Shape::column);
        Ok(Self {
            writer: SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?,
            time,
            cpu,
            pid,
            tid,
            comm,
            fields,
            rows: 0,
        })
    }

    fn push(&mut self, record: &Record<'_>, name: Option<&str>, symbols: &Symbols) {
        self.time.number(record.time_ns);
        self.cpu.number(record.cpu.into());
        self.pid.number(record.pid.into());
        self.tid.number(record.tid.into());
        self.comm.text(name);
        for (index, column) in &mut self.fields {
            if let Some(field) = record.event.layout.fields().get(*index) {
                column.push(record.value(field), symbols);
            }
        }
        self.rows += 1;
    }

    /// Writes the rows kept so far; gives their number.
    fn write(&mut self) -> Result<usize, ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let common = [
            &mut self.time,
            &mut self.cpu,
            &mut self.pid,
            &mut self.tid,
            &mut self.comm,
        ];
        let columns = common
            .into_iter()
            .chain(self.fields.iter_mut().map(|(_, column)| column));
        for column in columns {
            if let Some(mut to) = group.next_column()? {
                column.write(&mut to)?;
                to.close()?;
            }
        }
        group.close()?;
        Ok(std::mem::take(&mut self.rows))
    }
}

impl Parquet {
    fn new(recording: RecordingContext, place: OutputPath) -> Result<Self> {
        Ok(Self {
            folder: place.folder()?,
            names: Names::new(&recording),
            symbols: recording.symbols,
            tables: HashMap::default(),
            rows: 0,
        })
    }

    /// Begins the table of an event.
    fn begin(&mut self, event: &EventClass) -> Result<()> {
        let file = self.folder.file(&event.name, ".parquet")?;
        let table = Table::new(event, file).map_err(as_io);
        let table = table.map_err(self.folder.failed())?;
        self.tables.insert(event.id.0, table);
        Ok(())
    }
}

/// The file system's error where it was the cause: a full disk is recognised by it.
fn as_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(cause) => *cause,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

impl Conversion for Parquet {
    fn learn_thread_names(&mut self, record: &Record<'_>) {
        self.names.learn_thread_names(record);
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        self.names.learn_thread_names(record);
        if !self.tables.contains_key(&record.event.id.0) {
            self.begin(record.event)?;
        }
        let name = self.names.processes.name(record.tid, record.pid);
        let Some(table) = self.tables.get_mut(&record.event.id.0) else {
            return Ok(());
        };
        table.push(record, name, &self.symbols);
        self.rows += 1;
        let full = match table.rows >= GROUP {
            true => Some(table),
            false if self.rows >= KEPT => self.tables.values_mut().max_by_key(|table| table.rows),
            false => None,
        };
        if let Some(table) = full {
            let written = table.write().map_err(as_io);
            self.rows -= written.map_err(self.folder.failed())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        for mut table in self.tables.into_values() {
            let rest = if table.rows > 0 { table.write() } else { Ok(0) };
            let file = rest.and_then(|_| table.writer.into_inner());
            let closed = file.map_err(as_io).and_then(|mut file| file.flush());
            closed.map_err(self.folder.failed())?;
        }
        self.folder.finish()
    }
}
