"""The rows that compare engine passes: ours with the plain pass, with transformers and with the authors' code.

Each function measures one row on a Bench (run.py). Long passes of the authors are timed on some of the questions and
counted for the rest, in proportion to tokens; the row says on how many.
"""

from __future__ import annotations

from functools import cache

from bench import FRACTION, Bench
from measure import Cost, Ratios, pairs, progress, ratios, total

ABLATED = ("output_norm_ln", "first_token_weight", "entropy")  # the scores of the ablation rows


def plain_over_sdpa(bench: Bench) -> Ratios:
    prompt = bench.prompt(600)
    theirs = bench.transformers
    done = pairs(lambda: bench.pass_("plain", [prompt]), lambda: theirs.cost("plain", prompts=[prompt]))
    return ratios(done, ("ours", "sdpa"))


def record_over_plain(bench: Bench) -> Ratios:
    prompt = bench.prompt(600)
    done = pairs(lambda: bench.pass_("record", [prompt]), lambda: bench.pass_("plain", [prompt]))
    return ratios(done, ("record", "plain"))


def record_vs_hooks(bench: Bench, tokens: int = 600) -> Ratios:
    prompt = bench.prompt(tokens)
    theirs = bench.transformers
    done = pairs(lambda: theirs.cost("hooks", prompts=[prompt]), lambda: bench.pass_("record", [prompt]))
    return ratios(done, ("hooks", "record"))


def record_vs_hooks_1200(bench: Bench) -> Ratios:
    return record_vs_hooks(bench, 1200)


def record_speedup(bench: Bench) -> Ratios:
    prompt = bench.prompt(600)
    theirs = bench.authors
    theirs.cost("record", prompts=[bench.prompt(50)])  # warm
    bench.pass_("record", [prompt])
    done = pairs(lambda: theirs.cost("record", prompts=[prompt]), lambda: bench.pass_("record", [prompt]), warm=False)
    return ratios(done, ("theirs", "ours"))


def record_speedup_mmlu(bench: Bench) -> Ratios:
    questions = bench.questions()
    timed = bench.timed_questions()
    theirs = bench.authors
    theirs.cost("record", prompts=[bench.prompt(50)])  # warm
    factor = tokens(questions) / tokens(timed)
    done = pairs(
        lambda: theirs.cost("record", prompts=timed).times(factor),
        lambda: bench.pass_("record", questions),
        warm=False,
    )
    result = ratios(done, ("theirs", "ours"))
    result.detail.update(questions=len(questions), theirs_timed_questions=len(timed))
    return result


def ablate_speedup(bench: Bench, length: int = 600) -> Ratios:
    prompt = [bench.prompt(length)]
    return ablation(bench, prompt, prompt)


def ablate_speedup_1200(bench: Bench) -> Ratios:
    return ablate_speedup(bench, 1200)


def ablate_speedup_mmlu(bench: Bench) -> Ratios:
    return ablation(bench, bench.questions(), bench.timed_questions())


def ablation(bench: Bench, questions: list[list[int]], timed: list[list[int]]) -> Ratios:
    """The mean over the rules of theirs / ours, pair by pair."""
    theirs = bench.authors
    factor = tokens(questions) / tokens(timed)
    wall: list[list[float]] = []
    cpu: list[list[float]] = []
    detail: dict = {"questions": len(questions), "theirs_timed_questions": len(timed)}
    for rule in bench.rules(*ABLATED):
        progress(f"    {rule['score']} at {rule['threshold']:.4g}")
        theirs.cost("ablate", prompts=[bench.prompt(50)], rules=[rule])  # warm
        done = pairs(
            lambda rule=rule: theirs.cost("ablate", prompts=timed, rules=[rule]).times(factor),
            lambda rule=rule: bench.pass_("ablate", questions, rules=[rule]),
            warm=False,
        )
        of_rule = ratios(done, ("theirs", "ours"))
        shares = {"theirs_share": done[0][0].share, "ours_share": done[0][1].share}
        detail[rule["score"]] = {**of_rule.detail, **shares}
        wall.append(of_rule.wall)
        cpu.append(of_rule.cpu)
    return Ratios(mean_of_rules(wall), mean_of_rules(cpu), detail)


def mean_of_rules(values: list[list[float]]) -> list[float]:
    """Pair by pair. A rule that takes long has fewer pairs; as many count of the others."""
    return [sum(pair) / len(pair) for pair in zip(*values, strict=False)]


def sharing_worst_case(bench: Bench) -> Ratios:
    questions = bench.questions()
    rules = [{"random": FRACTION}]  # every row draws its own heads
    unshared = bench.new_engine("--sharing", "off")
    try:
        done = pairs(
            lambda: bench.pass_("ablate", questions, rules=rules),
            lambda: bench.pass_("ablate", questions, engine=unshared, rules=rules),
            warm=False,
        )
    finally:
        unshared.close()
    return ratios(done, ("shared", "unshared"))


@cache
def peak_bytes(bench: Bench, length: int) -> int:
    """Of a process that loads the model and records one prompt: a peak never falls, so each length has its own."""
    engine = bench.new_engine()
    try:
        cost = bench.pass_("record", [bench.prompt(length)], engine=engine)
        peak = int(engine.ask("memory")["peak_resident_bytes"])
    finally:
        engine.close()
    progress(f"    {length} tokens: {cost.seconds:.1f} s, {peak / 2**20:.0f} MiB")
    return peak


def record_peak_bytes_4096(bench: Bench) -> Ratios:
    return Ratios([peak_bytes(bench, 4096)], [], {})


def record_peak_8192_over_4096(bench: Bench) -> Ratios:
    return Ratios([peak_bytes(bench, 8192) / peak_bytes(bench, 4096)], [], {"bytes_8192": peak_bytes(bench, 8192)})


def sweep_cost(bench: Bench, questions: list[list[int]], scores: list[str]) -> tuple[Cost, int, int]:
    """What a sweep costs the authors: (cost, passes, passes timed).

    Theirs records every score in a pass of its own, then runs every score, and chance, at 7 shares of heads, 0
    included, and the unpatched model once. One question of middle length is run once under every kind of pass; a
    kind's cost is that, times shares, times questions in proportion to tokens.
    """
    theirs = bench.authors
    middle = [sorted(questions, key=len)[len(questions) // 2]]
    factor = tokens(questions) / tokens(middle)
    theirs.cost("record", prompts=[bench.prompt(50)])  # warm
    costs = []
    for score in scores:
        (rule,) = bench.rules(score)
        costs.append(theirs.cost("record", prompts=middle, scores=[score]).times(factor))
        costs.append(theirs.cost("ablate", prompts=middle, rules=[rule]).times(7 * factor))
    costs.append(theirs.cost("ablate", prompts=middle, rules=[{"random": FRACTION}]).times(7 * factor))
    costs.append(theirs.cost("unpatched", prompts=middle).times(factor))
    passes = (8 * len(scores) + 8) * len(questions)
    return total(costs), passes, len(costs)


def tokens(prompts: list[list[int]]) -> int:
    return sum(len(prompt) for prompt in prompts)


NEW_TOKENS = 64
TIMED_STEPS = (0, 31, 63)


def generate_speedup(bench: Bench) -> Ratios:
    """Theirs runs the whole sequence at every step; three of the steps are timed, over what ours generated."""
    theirs = bench.authors
    prompt = bench.arithmetic_prompt()
    theirs.cost("record", prompts=[bench.prompt(50)])  # warm
    factor = NEW_TOKENS / len(TIMED_STEPS)
    wall, cpu, detail = [], [], {"prompt_tokens": len(prompt), "theirs_timed_steps": len(TIMED_STEPS)}
    for rule in bench.rules(*ABLATED):
        progress(f"    {rule['score']} at {rule['threshold']:.4g}")
        ask = {"prompts": [prompt], "rules": [rule], "new_tokens": NEW_TOKENS}
        answer = bench.engine.ask("generate", **ask)  # warm, and the text
        steps = [prompt + answer["generated"][0][:step] for step in TIMED_STEPS]
        done = pairs(
            lambda steps=steps, rule=rule: theirs.cost("ablate", prompts=steps, rules=[rule]).times(factor),
            lambda ask=ask: bench.engine.cost("generate", **ask),
            warm=False,
        )
        of_rule = ratios(done, ("theirs", "ours"))
        redone = answer["computed_tokens"] / answer["recomputed_tokens"]
        shares = {"theirs_share": done[0][0].share, "ours_share": done[0][1].share}
        detail[rule["score"]] = {**of_rule.detail, **shares, "computed_over_recomputed": redone}
        wall.append(of_rule.wall)
        cpu.append(of_rule.cpu)
    return Ratios(mean_of_rules(wall), mean_of_rules(cpu), detail)
