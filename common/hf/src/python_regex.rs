//! Regular expressions as Python's re module reads them, with a bound on backtracking.

use crate::Error;

pub struct Regex(fancy_regex::Regex);

fn convert(error: fancy_regex::Error) -> Error {
    match error {
        fancy_regex::Error::RuntimeError(fancy_regex::RuntimeError::BacktrackLimitExceeded) => {
            Error::Exhausted("the regular expression took more steps than its limit".to_string())
        }
        other => Error::Invalid(format!("regular expression: {other}")),
    }
}

impl Regex {
    pub fn new(pattern: &str) -> Result<Self, Error> {
        fancy_regex::Regex::new(pattern).map(Self).map_err(convert)
    }

    /// re.findall as a JSON list of matches, each a list of its groups, or of the whole match where there are none.
    pub fn find_all(&self, text: &str) -> Result<String, Error> {
        let mut matches = Vec::new();
        for captures in self.0.captures_iter(text) {
            let captures = captures.map_err(convert)?;
            let first = usize::from(captures.len() > 1);
            let groups: Vec<&str> =
                (first..captures.len()).map(|i| captures.get(i).map_or("", |group| group.as_str())).collect();
            matches.push(groups);
        }
        serde_json::to_string(&matches).map_err(|error| Error::Internal(error.to_string()))
    }

    /// Every match gives way to `replacement`, which is taken as it is.
    pub fn replace_all(&self, text: &str, replacement: &str) -> Result<String, Error> {
        let replaced = self.0.try_replacen(text, 0, fancy_regex::NoExpand(replacement)).map_err(convert)?;
        Ok(replaced.into_owned())
    }
}
