//! Jinja templates in the two dialects that prompts are written in: Hugging Face chat templates (as transformers renders
//! them) and the task texts of lm-evaluation-harness. Rendering is bounded in instructions, data created and output.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, ErrorKind, State, UndefinedBehavior, Value};
use minijinja_contrib::pycompat;

use crate::{dates, python_json, python_regex, Error};

#[derive(Clone, Copy, PartialEq)]
pub enum Dialect {
    Chat,
    Task,
}

pub struct Template {
    environment: Environment<'static>,
    max_output: usize,
}

const NAME: &str = "template";

impl Template {
    pub fn new(source: &str, dialect: Dialect, fuel: u64, max_output: usize) -> Result<Self, Error> {
        // Jinja2 reads any line end as a newline.
        let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(fuel));
        environment.set_unknown_method_callback(python_method);
        environment.add_filter("tojson", python_json::tojson);
        environment.add_filter("trim", python_trim);
        environment.add_filter("regex_replace", regex_replace);
        let chat = dialect == Dialect::Chat;
        let syntax = SyntaxConfig::builder()
            .trim_blocks(chat)
            .lstrip_blocks(chat)
            .keep_trailing_newline(!chat)
            .build()
            .map_err(convert)?;
        environment.set_syntax(syntax);
        match dialect {
            Dialect::Chat => {
                environment.add_function("raise_exception", |text: String| -> Result<Value, minijinja::Error> {
                    Err(minijinja::Error::new(ErrorKind::InvalidOperation, text))
                });
                source = without_generation_tags(&source);
            }
            Dialect::Task => environment.set_undefined_behavior(UndefinedBehavior::Strict),
        }
        environment.add_template_owned(NAME, source).map_err(convert)?;
        Ok(Self { environment, max_output })
    }

    pub fn render(&self, json: &[u8], now: Option<i64>) -> Result<Vec<u8>, Error> {
        let mut context: BTreeMap<String, Value> =
            serde_json::from_slice(json).map_err(|error| Error::Invalid(format!("the variables: {error}")))?;
        if let Some(now) = now {
            let function = Value::from_function(move |format: String| -> Result<String, minijinja::Error> {
                dates::strftime(&format, now)
                    .map_err(|error| minijinja::Error::new(ErrorKind::InvalidOperation, format!("{error:?}")))
            });
            context.insert("strftime_now".to_string(), function);
        }
        let mut out = Bounded { bytes: Vec::new(), limit: self.max_output, exceeded: false };
        let template = self.environment.get_template(NAME).map_err(convert)?;
        let result = template.render_captured_to(Value::from(context), &mut out).map(drop);
        if out.exceeded {
            return Err(Error::Exhausted(format!("its output is longer than the limit of {} bytes", out.limit)));
        }
        result.map_err(convert)?;
        Ok(out.bytes)
    }
}

/// A writer that refuses to grow past its limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    exceeded: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            self.exceeded = true;
            return Err(io::Error::other("output limit"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn convert(error: minijinja::Error) -> Error {
    let mut text = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    if let Some(line) = error.line() {
        text.push_str(&format!(" (line {line})"));
    }
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!("; {cause}"));
        source = cause.source();
    }
    if error.kind() == ErrorKind::OutOfFuel {
        return Error::Exhausted("it took more steps than its limit of fuel".to_string());
    }
    Error::Invalid(text)
}

/// What Python's str.strip() takes away: Unicode white space and the four information separators.
pub fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Jinja2's trim is Python's strip; minijinja's differs in a few control characters.
fn python_trim(value: &Value, characters: Option<String>) -> Result<String, minijinja::Error> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
    if value.is_undefined() {
        return Err(minijinja::Error::from(ErrorKind::UndefinedError));
    }
    Ok(match characters {
        Some(set) => text.trim_matches(|c| set.contains(c)).to_string(),
        None => text.trim_matches(is_python_space).to_string(),
    })
}

/// Python's re.sub without references to groups: what lm-evaluation-harness' own preprocessing needs of it.
fn regex_replace(text: String, pattern: String, replacement: String) -> Result<String, minijinja::Error> {
    python_regex::Regex::new(&pattern)
        .and_then(|regex| regex.replace_all(&text, &replacement))
        .map_err(|error| minijinja::Error::new(ErrorKind::InvalidOperation, format!("regex_replace: {}", error.text())))
}

/// list.index: the place of the first item that equals the argument.
fn index_of(list: &Value, arguments: &[Value]) -> Result<Value, minijinja::Error> {
    let (wanted,): (&Value,) = minijinja::value::from_args(arguments)?;
    let place = list.try_iter()?.position(|item| item == *wanted);
    place.map(Value::from).ok_or_else(|| {
        minijinja::Error::new(ErrorKind::InvalidOperation, format!("index: {wanted} is not in the list"))
    })
}

fn python_method(
    state: &mut State,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    if value.kind() == ValueKind::String && arguments.is_empty() {
        let text = value.as_str().unwrap_or_default();
        match method {
            "strip" => return Ok(Value::from(text.trim_matches(is_python_space))),
            "lstrip" => return Ok(Value::from(text.trim_start_matches(is_python_space))),
            "rstrip" => return Ok(Value::from(text.trim_end_matches(is_python_space))),
            _ => {}
        }
    }
    if value.kind() == ValueKind::Seq && method == "index" {
        return index_of(value, arguments);
    }
    pycompat::unknown_method_callback(state, value, method, arguments)
}

/// transformers marks what an assistant wrote with {% generation %} ... {% endgeneration %}, which prints its body. Here
/// the pair becomes an always-true `if`, which does the same.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let tag = &rest[start..start + length + 2];
        let body = tag[2..tag.len() - 2].trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        out.push_str(&rest[..start]);
        match body {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = &rest[start + length + 2..];
    }
    out.push_str(rest);
    out
}
