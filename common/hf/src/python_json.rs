//! The `tojson` filter as transformers defines it: Python's json.dumps(ensure_ascii=False), without HTML escaping.

use std::io;

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// json.dumps without indent puts a blank after each comma and colon.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

pub fn tojson(value: &Value, arguments: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = arguments.get("indent")?;
    let ensure_ascii: Option<bool> = arguments.get("ensure_ascii")?;
    arguments.assert_all_used()?;
    if ensure_ascii == Some(true) {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson(ensure_ascii=true) is not supported"));
    }
    let mut out = Vec::new();
    let result = match indent {
        Some(width) => {
            let blanks = " ".repeat(width.min(64));
            value.serialize(&mut Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(blanks.as_bytes())))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut out, Spaced)),
    };
    result.map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("tojson: {error}")))?;
    let text = String::from_utf8(out).map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    Ok(Value::from(text))
}
