/* The C border between common/hf (C++) and its Rust crate (src/lib.rs): tokenizers, Jinja
 * templates and Python's regular expressions. Only the C++ files of this folder include it;
 * everyone else uses tokenizer.h, chat_template.h, template.h and regex.h.
 *
 * Every function that can fail returns an HcHfCode; on anything but HC_HF_OK it fills *error with
 * UTF-8 text and leaves the other outputs alone. Bytes and ids that come out are owned by the
 * caller and freed by hc_hf_*_free. No function unwinds into C. Objects are immutable after they
 * were made: any number of threads may use one. */

#ifndef HEADCOUNT_COMMON_HF_HF_H_
#define HEADCOUNT_COMMON_HF_HF_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum HcHfCode {
  HC_HF_OK = 0,
  HC_HF_INVALID = 1,   /* the input is wrong */
  HC_HF_EXHAUSTED = 2, /* a template went over its fuel or output limit */
  HC_HF_INTERNAL = 3,  /* a bug: the Rust side panicked */
} HcHfCode;

typedef struct HcHfBytes {
  uint8_t* data;
  size_t size;
} HcHfBytes;

typedef struct HcHfIds {
  uint32_t* data;
  size_t size;
} HcHfIds;

typedef struct HcHfTokenizer HcHfTokenizer;
typedef struct HcHfTemplate HcHfTemplate;

void hc_hf_bytes_free(HcHfBytes bytes);
void hc_hf_ids_free(HcHfIds ids);

/* From the bytes of a tokenizer.json. Its truncation and padding settings are switched off. */
HcHfCode hc_hf_tokenizer_new(const uint8_t* json, size_t size, HcHfTokenizer** out,
                             HcHfBytes* error);
void hc_hf_tokenizer_free(HcHfTokenizer* tokenizer);
HcHfCode hc_hf_tokenizer_encode(const HcHfTokenizer* tokenizer, const uint8_t* text, size_t size,
                                bool add_special_tokens, HcHfIds* out, HcHfBytes* error);
HcHfCode hc_hf_tokenizer_decode(const HcHfTokenizer* tokenizer, const uint32_t* ids, size_t count,
                                bool skip_special, HcHfBytes* out, HcHfBytes* error);
/* False, with *out untouched, for an id or token that the tokenizer does not have. */
bool hc_hf_tokenizer_id_to_token(const HcHfTokenizer* tokenizer, uint32_t id, HcHfBytes* out);
bool hc_hf_tokenizer_token_to_id(const HcHfTokenizer* tokenizer, const uint8_t* token, size_t size,
                                 uint32_t* out);
/* The highest id plus one, added tokens included. */
size_t hc_hf_tokenizer_vocab_size(const HcHfTokenizer* tokenizer);

/* How a template is read: as transformers renders chat templates, or as lm-evaluation-harness
 * renders task texts. */
typedef enum HcHfDialect { HC_HF_CHAT = 0, HC_HF_TASK = 1 } HcHfDialect;

/* Parses a template. Fuel counts instructions and, at 64 bytes each, data that they create. */
HcHfCode hc_hf_template_new(const uint8_t* source, size_t size, HcHfDialect dialect, uint64_t fuel,
                            size_t max_output, HcHfTemplate** out, HcHfBytes* error);
void hc_hf_template_free(HcHfTemplate* tmpl);
/* Renders with the members of a JSON object as variables. `now`, in seconds since 1970 (UTC), is
 * what strftime_now() shows; NULL leaves that function undefined. */
HcHfCode hc_hf_template_render(const HcHfTemplate* tmpl, const uint8_t* json, size_t size,
                               const int64_t* now, HcHfBytes* out, HcHfBytes* error);

typedef struct HcHfRegex HcHfRegex;

/* A regular expression in Python's syntax; backtracking is bounded. */
HcHfCode hc_hf_regex_new(const uint8_t* pattern, size_t size, HcHfRegex** out, HcHfBytes* error);
void hc_hf_regex_free(HcHfRegex* regex);
/* Python's re.findall as JSON: a list of matches, each a list of its groups' texts ("" for one that
 * took no part), or of the whole match where the expression has no group. */
HcHfCode hc_hf_regex_find_all(const HcHfRegex* regex, const uint8_t* text, size_t size,
                              HcHfBytes* out, HcHfBytes* error);
/* The text without any match. */
HcHfCode hc_hf_regex_remove(const HcHfRegex* regex, const uint8_t* text, size_t size,
                            HcHfBytes* out, HcHfBytes* error);

/* Methods of Python's str. */
typedef enum HcHfChange {
  HC_HF_LOWER = 0,
  HC_HF_UPPER = 1,
  HC_HF_STRIP = 2,
  HC_HF_LEFT_STRIP = 3,
} HcHfChange;
HcHfCode hc_hf_change_text(HcHfChange change, const uint8_t* text, size_t size, HcHfBytes* out,
                           HcHfBytes* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* HEADCOUNT_COMMON_HF_HF_H_ */
