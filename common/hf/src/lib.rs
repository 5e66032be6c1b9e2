//! The C border declared in hf.h. Each function checks its input, calls one of the modules, and turns errors and panics
//! into a code and a text. All `unsafe` of the crate is in this file.

mod dates;
mod python_json;
mod python_regex;
mod template;
mod tokenizer;

use std::panic::{catch_unwind, AssertUnwindSafe};

use python_regex::Regex;
use template::{Dialect, Template};
use tokenizer::Tokenizer;

/// What went wrong: hf.h's HcHfCode with a text.
#[derive(Debug)]
pub enum Error {
    Invalid(String),
    Exhausted(String),
    Internal(String),
}

impl Error {
    fn text(self) -> String {
        match self {
            Error::Invalid(text) | Error::Exhausted(text) | Error::Internal(text) => text,
        }
    }
}

#[repr(C)]
pub struct Bytes {
    data: *mut u8,
    size: usize,
}

#[repr(C)]
pub struct Ids {
    data: *mut u32,
    size: usize,
}

fn give_bytes(bytes: Vec<u8>) -> Bytes {
    let boxed = bytes.into_boxed_slice();
    Bytes { size: boxed.len(), data: Box::into_raw(boxed).cast() }
}

fn give_ids(ids: Vec<u32>) -> Ids {
    let boxed = ids.into_boxed_slice();
    Ids { size: boxed.len(), data: Box::into_raw(boxed).cast() }
}

/// Runs `body`; writes its value to `out`, or its error or panic to `error`, and returns the code.
///
/// # Safety
/// `out` and `error` must be valid for writes.
unsafe fn border<T>(out: *mut T, error: *mut Bytes, body: impl FnOnce() -> Result<T, Error>) -> i32 {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| text.to_string())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(Error::Internal(format!("panic: {text}")))
    });
    let (code, text) = match result {
        Ok(value) => {
            out.write(value);
            return 0;
        }
        Err(Error::Invalid(text)) => (1, text),
        Err(Error::Exhausted(text)) => (2, text),
        Err(Error::Internal(text)) => (3, text),
    };
    error.write(give_bytes(text.into_bytes()));
    code
}

/// # Safety
/// `data` must be valid for `size` reads, or `size` must be 0.
unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes)
        .map_err(|error| Error::Invalid(format!("the text is not valid UTF-8 at byte {}", error.valid_up_to())))
}

/// # Safety
/// `bytes` must come from this library and not have been freed.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_bytes_free(bytes: Bytes) {
    if !bytes.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes.data, bytes.size)));
    }
}

/// # Safety
/// `ids` must come from this library and not have been freed.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_ids_free(ids: Ids) {
    if !ids.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(ids.data, ids.size)));
    }
}

/// # Safety
/// See hf.h; pointers must be valid as it says.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_tokenizer_new(
    json: *const u8,
    size: usize,
    out: *mut *mut Tokenizer,
    error: *mut Bytes,
) -> i32 {
    border(out, error, || Ok(Box::into_raw(Box::new(Tokenizer::new(slice(json, size))?))))
}

/// # Safety
/// `tokenizer` must come from hc_hf_tokenizer_new and not have been freed.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_tokenizer_free(tokenizer: *mut Tokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

/// # Safety
/// See hf.h; pointers must be valid as it says.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_tokenizer_encode(
    tokenizer: *const Tokenizer,
    input: *const u8,
    size: usize,
    add_special_tokens: bool,
    out: *mut Ids,
    error: *mut Bytes,
) -> i32 {
    border(out, error, || Ok(give_ids((*tokenizer).encode(text(slice(input, size))?, add_special_tokens)?)))
}

/// # Safety
/// See hf.h; pointers must be valid as it says.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_tokenizer_decode(
    tokenizer: *const Tokenizer,
    ids: *const u32,
    count: usize,
    skip_special: bool,
    out: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    border(out, error, || Ok(give_bytes((*tokenizer).decode(slice(ids, count), skip_special)?.into_bytes())))
}

/// # Safety
/// See hf.h; pointers must be valid as it says.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_tokenizer_id_to_token(tokenizer: *const Tokenizer, id: u32, out: *mut Bytes) -> bool {
    match (*tokenizer).id_to_token(id) {
        Some(token) => {
            out.write(give_bytes(token.into_bytes()));
            true
        }
        None => false,
    }
}

/// # Safety
/// See hf.h; pointers must be valid as it says.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_tokenizer_token_to_id(
    tokenizer: *const Tokenizer,
    token: *const u8,
    size: usize,
    out: *mut u32,
) -> bool {
    match std::str::from_utf8(slice(token, size)).ok().and_then(|token| (*tokenizer).token_to_id(token)) {
        Some(id) => {
            out.write(id);
            true
        }
        None => false,
    }
}

/// # Safety
/// `tokenizer` must be valid.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_tokenizer_vocab_size(tokenizer: *const Tokenizer) -> usize {
    (*tokenizer).vocab_size()
}

/// # Safety
/// See hf.h; pointers must be valid as it says.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_template_new(
    source: *const u8,
    size: usize,
    dialect: i32,
    fuel: u64,
    max_output: usize,
    out: *mut *mut Template,
    error: *mut Bytes,
) -> i32 {
    border(out, error, || {
        let dialect = match dialect {
            0 => Dialect::Chat,
            1 => Dialect::Task,
            other => return Err(Error::Internal(format!("no template dialect {other}"))),
        };
        Ok(Box::into_raw(Box::new(Template::new(text(slice(source, size))?, dialect, fuel, max_output)?)))
    })
}

/// # Safety
/// `template` must come from hc_hf_template_new and not have been freed.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_template_free(template: *mut Template) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

/// # Safety
/// See hf.h; pointers must be valid as it says.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_template_render(
    template: *const Template,
    json: *const u8,
    size: usize,
    now: *const i64,
    out: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    border(out, error, || Ok(give_bytes((*template).render(slice(json, size), now.as_ref().copied())?)))
}

/// # Safety
/// See hf.h; pointers must be valid as it says.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_regex_new(
    pattern: *const u8,
    size: usize,
    out: *mut *mut Regex,
    error: *mut Bytes,
) -> i32 {
    border(out, error, || Ok(Box::into_raw(Box::new(Regex::new(text(slice(pattern, size))?)?))))
}

/// # Safety
/// `regex` must come from hc_hf_regex_new and not have been freed.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_regex_free(regex: *mut Regex) {
    if !regex.is_null() {
        drop(Box::from_raw(regex));
    }
}

/// # Safety
/// See hf.h; pointers must be valid as it says.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_regex_find_all(
    regex: *const Regex,
    input: *const u8,
    size: usize,
    out: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    border(out, error, || Ok(give_bytes((*regex).find_all(text(slice(input, size))?)?.into_bytes())))
}

/// # Safety
/// See hf.h; pointers must be valid as it says.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_regex_remove(
    regex: *const Regex,
    input: *const u8,
    size: usize,
    out: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    border(out, error, || Ok(give_bytes((*regex).replace_all(text(slice(input, size))?, "")?.into_bytes())))
}

/// # Safety
/// See hf.h; pointers must be valid as it says.
#[no_mangle]
pub unsafe extern "C" fn hc_hf_change_text(
    change: i32,
    input: *const u8,
    size: usize,
    out: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    border(out, error, || {
        let text = text(slice(input, size))?;
        let changed = match change {
            0 => text.to_lowercase(),
            1 => text.to_uppercase(),
            2 => text.trim_matches(template::is_python_space).to_string(),
            3 => text.trim_start_matches(template::is_python_space).to_string(),
            other => return Err(Error::Internal(format!("no change of text {other}"))),
        };
        Ok(give_bytes(changed.into_bytes()))
    })
}
