//! A tokenizer.json, immutable once it is read.

use crate::Error;

pub struct Tokenizer(tokenizers::Tokenizer);

impl Tokenizer {
    pub fn new(json: &[u8]) -> Result<Self, Error> {
        let mut inner = tokenizers::Tokenizer::from_bytes(json).map_err(|error| Error::Invalid(error.to_string()))?;
        // A file may carry the settings of whoever saved it last; prompts are never cut or padded behind our back.
        inner.with_truncation(None).map_err(|error| Error::Invalid(error.to_string()))?;
        inner.with_padding(None);
        Ok(Self(inner))
    }

    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, Error> {
        let encoding =
            self.0.encode_fast(text, add_special_tokens).map_err(|error| Error::Invalid(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, Error> {
        // The library leaves out ids it does not know; here they are an error.
        if let Some(id) = ids.iter().find(|id| self.0.id_to_token(**id).is_none()) {
            return Err(Error::Invalid(format!("token id {id} is not in the tokenizer")));
        }
        self.0.decode(ids, skip_special).map_err(|error| Error::Invalid(error.to_string()))
    }

    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.0.id_to_token(id)
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.0.token_to_id(token)
    }

    pub fn vocab_size(&self) -> usize {
        self.0.get_vocab(true).values().max().map_or(0, |id| *id as usize + 1)
    }
}
