//! Rows as Parquet: rows are kept until a group is full, and then written column by column.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::columns::{ColumnKind, ExportCell, ExportColumn};
use super::sheet::ExportError;

/// Rows of a group. Source: our choice, because 4,096 experiments take some megabytes.
const GROUP: usize = 4096;

/// A Parquet file that is being written.
pub struct ParquetSheet {
    writer: SerializedFileWriter<File>,
    kinds: Vec<ColumnKind>,
    /// Values of the group that is being filled, by column.
    group: Vec<Vec<ExportCell>>,
}

impl ParquetSheet {
    /// Begins the file.
    pub fn new(file: File, columns: &[ExportColumn]) -> Result<Self, ExportError> {
        let fields = columns.iter().map(|column| {
            let (physical, logical) = match column.kind {
                ColumnKind::Count => (Physical::INT64, None),
                ColumnKind::Real => (Physical::DOUBLE, None),
                ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let field = Type::primitive_type_builder(&column.name, physical).with_logical_type(logical);
            field.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
        });
        let schema = Type::group_type_builder("kelpie").with_fields(fields.collect::<Result<_, _>>()?).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
        let kinds: Vec<ColumnKind> = columns.iter().map(|column| column.kind).collect();
        Ok(Self { writer, group: vec![Vec::new(); kinds.len()], kinds })
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        let mut group = self.writer.next_row_group()?;
        for (kind, cells) in self.kinds.iter().zip(&mut self.group) {
            let cells = std::mem::take(cells);
            // 1 where there is a value, 0 where it is missing.
            let levels: Vec<i16> = cells.iter().map(|cell| i16::from(*cell != ExportCell::Missing)).collect();
            let mut column = group.next_column()?.expect("as many columns as the schema has");
            match kind {
                ColumnKind::Count => {
                    let values: Vec<i64> = cells.iter().filter_map(count).collect();
                    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
                }
                ColumnKind::Real => {
                    let values: Vec<f64> = cells.iter().filter_map(real).collect();
                    column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
                }
                ColumnKind::Text => {
                    let values: Vec<ByteArray> = cells.into_iter().filter_map(text).collect();
                    column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
        Ok(())
    }
}

fn count(cell: &ExportCell) -> Option<i64> {
    if let ExportCell::Count(count) = *cell { Some(count.cast_signed()) } else { None }
}

fn real(cell: &ExportCell) -> Option<f64> {
    if let ExportCell::Real(real) = *cell { Some(real) } else { None }
}

fn text(cell: ExportCell) -> Option<ByteArray> {
    if let ExportCell::Text(text) = cell { Some(text.into_bytes().into()) } else { None }
}

impl super::sheet::Sheet for ParquetSheet {
    fn row(&mut self, cells: Vec<ExportCell>) -> Result<(), ExportError> {
        for (column, cell) in self.group.iter_mut().zip(cells) {
            column.push(cell);
        }
        if self.group.first().is_some_and(|column| column.len() == GROUP) { self.write_group() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<File, ExportError> {
        if self.group.first().is_some_and(|column| !column.is_empty()) {
            self.write_group()?;
        }
        Ok(self.writer.into_inner()?)
    }
}
