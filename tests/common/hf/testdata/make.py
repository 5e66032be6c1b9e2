"""Makes the expected values of the hf tests with Python's tokenizers and jinja2, which the C++ code is compared to.

Run by hand when a case is added: python make.py  (needs the PyPI packages tokenizers==0.22.2 and jinja2==3.1.6; the
demo models must have been made for models.json). The small tokenizer is trained on this file's own text.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, ClassVar

import jinja2
import jinja2.ext
import jinja2.sandbox
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).resolve().parent
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TEXTS = [
    "",
    "The heads of 2048 models",
    "  two  blanks\n\n\tand tabs  ",
    "it's we'll I'M they'Ve",
    "cafe\u0301 caf\u00e9 \u212b",
    "\u65e5\u672c\u8a9e \U0001f642\U0001f468\u200d\U0001f469",
    "<|turn|>user<tool>x</s> <|im_start|>user\nhi<|im_end|>",
    "a\u00a0b\u2003c\u3000\u0085d",
    "1234567 3.14 \u0663\u0664 x\u00b2 \u216b",
    "for (int i = 0; i < n; ++i) { sum += v[i]; }\r\n\r\n",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u05e9\u05dc\u05d5\u05dd",
    "tab\tand\x1cseparators\x00zero",
    "   \n   \n  end",
]

DOCUMENT: dict[str, Any] = {
    "question": "  \u2003Why <b>?&\x1c\r\n",
    "choices": ["one", "two's", 'say "x"'],
    "label": 1,
    "score": 0.5,
    "whole": 2.0,
    "yes": True,
    "nothing": None,
    "empty": "",
    "nested": {"a": [1, 2, {"b": "\u00e9<"}]},
    "csv": "a,b,,c",
}

TASK_TEMPLATES = [
    "{{question.strip()}}\nA. {{choices[0]}}\nAnswer:",
    "Question: {{question}}\nAnswer:\n",
    "{{ question | trim }}|{{ choices | length }}|{{ choices | join(', ') }}",
    "{{choices[label]}} {{choices[-1]}} {{choices[1:]|length}}",
    "{{yes}} {{nothing}} {{score}} {{whole}} {{label + 1}} {{ label / 2 }} {{ 7 // 2 }} {{ 2 ** 3 }} {{ 7 % 4 }}",
    "{{choices}} {{nested}}",
    "{{csv.split(',')|length}} {{csv.split(',')[2] == ''}} {{'a b  c'.split()}} {{'a-b-c'.split('-', 1)}}",
    "{{csv.replace(',', '<&>')}} {{csv.upper()}} {{'abc'.startswith('ab')}} {{'Abc'.lower().endswith('bc')}}",
    "{% for c in choices %}{{loop.index}}. {{c}}{% if not loop.last %}\n{% endif %}{% endfor %}",
    "  {% if yes %}\n  kept blanks\n  {% endif %}\n",
    "{{ 'x' if label == 1 else 'y' }}{{ ['A', 'B', 'C', 'D'][label] }}",
    "{% set letters = ['A', 'B', 'C'] %}{% for c in choices %}{{letters[loop.index0]}}: {{c}}\n{% endfor %}",
    "{{ empty or 'default' }}{{ (label | string) + '!' }}{{ 'q' ~ label }}",
    "{% macro f(x) %}[{{x}}]{% endmacro %}{{ f(1) }}{{ f('a') }}",
    "{{ question.lstrip()|length }} {{ question.rstrip()|length }} {{ '..a.'.strip('.') }}",
    "line one\r\nline two\r\n",
    "{{ nested['a'][2]['b'] }} {{ nested.a[0] }} {{ 'b' in nested.a[2] }} {{ missing is defined }}",
    "{{ 'title case'.title() }} {{ 'cap'.capitalize() }} {{ 'a,b'.count(',') }} {{ 'abc'.find('c') }}",
    "{{ '%s-%s' | format('a', 1) }} {{ csv[0] }} {{ csv[:3] }} {{ csv | upper }}",
    "{{ choices.index('one') }} {{ nested.a.index(2) }} {{ 'sHE \u00c9'.capitalize() }}",
    "{{ csv | regex_replace(',+', '$1') }} {{ '[a] b [c]\n[d\n]' | regex_replace('\\\\[.*?\\\\]', '') }}",
    "{{ choices | map('trim') | map('replace', 'o', '0') | map('regex_replace', '(?<=n)e|s(?= )', '_') | list }}",
    "{{ '1' | int - 1 }} {{ 'a_b_c'.split('_')[0] + 'x' }} {{ 'a_b_c '.split('_', 1)[1].strip() }}",
]

# One template that shows the trouble of each kind, with the message's key words.
TASK_ERRORS = [
    "{{missing}}",
    "{{missing.strip()}}",
    "{{nested.absent}}",
    "{% if missing %}x{% endif %}",
    "{{'x'.split('_')[1]}}",
]

CONVERSATIONS: list[list[dict[str, str]]] = [
    [{"role": "user", "content": "hi <there> & 'you'"}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "  one \n"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ],
]

CHAT_TEMPLATES = [
    # ChatML.
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
    "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    # Blocks on lines of their own, white-space control, set, loop controls, a namespace.
    "{% set ns = namespace(system='') %}\n{% for m in messages %}\n  {%- if m.role == 'system' %}\n"
    "    {%- set ns.system = m.content | trim %}\n    {%- continue %}\n  {%- endif %}\n"
    "  {% if loop.last %}\nLAST\n  {% endif %}\n{{ m.role }}: {{ m.content.strip() }}\n{% endfor %}\n"
    "{{ bos_token }}[{{ ns.system }}]{{ eos_token }}\n",
    # Slices, tests, tojson, undefined values that print as nothing.
    "{%- if messages[0]['role'] == 'system' %}{%- set rest = messages[1:] %}{%- else %}{%- set rest = messages %}"
    "{%- endif %}{{ rest | length }} {{ messages[0] | tojson }}\n{{ messages[-1:] | tojson(indent=2) }}"
    "{{ undefined_name }}{% if tools is not none %}T{% endif %}{% if tools %}U{% endif %}"
    "{% if messages[0].content is string %}S{% endif %}{% if custom is not defined %}D{% endif %}",
    # selectattr, map, join, a macro with a default, inline if, in, string multiplication.
    "{% macro say(role, text, tail='!') %}<{{ role }}>{{ text }}{{ tail }}{% endmacro %}"
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join('|') }}"
    "{% for m in messages if m.role != 'system' %}{{ say(m.role, m.content) }}{{ '=' * 3 }}"
    "{{ 'u' if m.role == 'user' else 'a' }}{% endfor %}{{ 'user' in messages[0].role }}",
    # Alternating roles are checked by many templates.
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content }}\n{% endfor %}",
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}\n"
    "{% else %}{{ m.content }}{%- endif %}{% endfor %}",
]


class Generation(jinja2.ext.Extension):
    """transformers' {% generation %}: prints its body."""

    tags: ClassVar[set[str]] = {"generation"}

    def parse(self, parser: Any) -> Any:
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=lineno)


def chat_environment() -> jinja2.Environment:
    def raise_exception(text: str) -> None:
        raise jinja2.exceptions.TemplateError(text)

    def tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    return environment


def render(environment: jinja2.Environment, template: str, variables: dict[str, Any]) -> dict[str, Any]:
    case = {"template": template, "variables": variables}
    try:
        return {**case, "expected": environment.from_string(template).render(**variables)}
    except jinja2.exceptions.TemplateError as error:
        return {**case, "error": str(error)}


def make_templates() -> dict[str, Any]:
    task = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    # Ours takes the replacement as it is.
    task.filters["regex_replace"] = lambda text, pattern, new: re.sub(pattern, lambda _: new, text)
    chat_cases = []
    for template in CHAT_TEMPLATES:
        for messages in CONVERSATIONS:
            variables = {
                "messages": messages,
                "add_generation_prompt": True,
                "tools": None,
                "documents": None,
                "bos_token": "<s>",
                "eos_token": "</s>",
            }
            case = render(chat_environment(), template, variables)
            chat_cases.append(case)
    return {
        "task": [render(task, template, DOCUMENT) for template in TASK_TEMPLATES + TASK_ERRORS],
        "chat": chat_cases,
    }


def make_tokenizer(folder: Path) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([Path(__file__).read_text(encoding="utf-8")], trainer)
    tokenizer.add_special_tokens([AddedToken("<|turn|>", special=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    # A reader must not take these over.
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=16)
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": CHAT_TEMPLATES[0]}
    write(folder / "tokenizer_config.json", config)
    return tokenizer


def encode_all(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    tokenizer.no_truncation()
    tokenizer.no_padding()
    cases = []
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append(
            {
                "text": text,
                "ids": ids,
                "ids_with_special": tokenizer.encode(text).ids,
                "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                "decoded_without_special": tokenizer.decode(ids),
            }
        )
    return cases


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    write(HERE / "templates.json", make_templates())
    write(HERE / "tokenizer" / "expected.json", encode_all(make_tokenizer(HERE / "tokenizer")))
    root = Path(os.environ.get("HEADCOUNT_PREFIX") or Path.home() / ".cache" / "headcount") / "models"
    demo = ("SmolLM2-135M-Instruct", "Qwen2.5-Coder-0.5B-Instruct")
    cases = {name: encode_all(Tokenizer.from_file(str(root / name / "tokenizer.json"))) for name in demo}
    write(HERE / "models.json", cases)


if __name__ == "__main__":
    main()
