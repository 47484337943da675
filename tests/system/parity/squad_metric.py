"""Awkward answers and what SQuAD's official metrics give them.

    squad_metric.py FILE [NO_ANSWER]

FILE gets JSON: a list of {"prediction", "references", "exact_match", "f1"}, both numbers x100 and the best over the
references, then an object with their means over all questions, as Hugging Face's `squad` metric reports them. Texts are
normalised by transformers' copy of the official function; a prediction is what stands before the first line break.

With NO_ANSWER the metric is version 2.0's, which transformers has a copy of, and some questions have no answer: their
reference is NO_ANSWER, and a prediction of it is an empty one.
"""
import json
import random
import sys
from collections import Counter

from transformers.data.metrics.squad_metrics import normalize_answer, squad_evaluate
from transformers.data.processors.squad import SquadExample

WORDS = ["the", "The", "a", "A", "an", "AN", "Paris", "paris", "Eiffel", "tower", "1889", "1,889", "$3.5", "3", "U.S.",
         "U.S", "US", "it's", "its", "café", "CAFÉ", "cafe\u0301", "naïve", "ΟΔΟΣ", "οδος", "οδοσ", "İstanbul",
         "istanbul", "ſ", "ß", "ẞ", "ss", "Straße", "the²", "²", "a_b", "_", "x-y", "x y", "–", "—", "“The”", "«an»",
         "東京", "東京都", "the東京", "ﬁ", "fi", "a.", "(a)", "!", "...", "and", "anthem", "thesis", "Ⅷ", "ⅷ", "𝒜",
         "a\u200bb", "ǅ", "ǆ", "\u0345", "theory", "ther", "th", "É", "é", "e\u0301", "0", "00", "-", "'", "ʼn", "ŉ"]
SPACES = [" ", " ", " ", " ", "  ", "\t", "\u00a0", "\u2003", "\u3000", "\x1f", "\x85", "\u2028", "\u200b", "", "\r"]
FIXED = [("", [""]), ("the", ["an"]), ("the", ["The."]), ("", ["the"]), ("!", ["?"]), ("a", ["Paris", "a"]),
         ("Paris\nLondon", ["Paris"]), ("\nParis", ["Paris"]), ("x", ["y", "x y", "x"]), ("b b c", ["b c c d"]),
         ("the the the", ["the"]), ("Paris, France", ["London", "Paris"]), ("  Paris  ", ["paris"])]


def text(rng, longest):
    words = rng.choices(WORDS, k=rng.randint(0, longest))
    return "".join(word + rng.choice(SPACES) for word in words)


def variant(rng, of):
    """The same answer as somebody else might write it: words moved, doubled, left out or in other case."""
    words = of.split()
    kind = rng.randrange(5)
    if kind == 0:
        rng.shuffle(words)
    elif kind == 1:
        words = [*words, *words[-2:], rng.choice(WORDS)]
    elif kind == 2:
        words = [word.upper() if rng.random() < 0.5 else word.title() for word in words]
    elif kind == 3:
        words = ["the", *words, "."]
    else:
        words = words[1:]
    return " ".join(words)


def cases():
    rng = random.Random(4)
    yield from FIXED
    for _ in range(500):
        references = [text(rng, 6) for _ in range(rng.randint(1, 4))]
        prediction = text(rng, 6) if rng.random() < 0.3 else variant(rng, rng.choice(references))
        if rng.random() < 0.1:
            prediction += "\n" + text(rng, 3)
        yield prediction, references


def f1(prediction, reference):
    predicted, expected = normalize_answer(prediction).split(), normalize_answer(reference).split()
    same = sum((Counter(predicted) & Counter(expected)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted), same / len(expected)
    return 2 * precision * recall / (precision + recall)


def exact_match(prediction, reference):
    return float(normalize_answer(prediction) == normalize_answer(reference))


def version_1(out):
    for prediction, references in cases():
        first = prediction.split("\n")[0]
        out.append({"prediction": prediction, "references": references,
                    "exact_match": 100 * max(exact_match(first, reference) for reference in references),
                    "f1": 100 * max(f1(first, reference) for reference in references)})
    return {name: sum(case[name] for case in out) / len(out) for name in ("exact_match", "f1")}


def version_2(out, no_answer):
    """Each question by itself for its own scores, then all of them."""
    rng = random.Random(5)
    none = normalize_answer(no_answer)
    examples, predictions = [], {}
    for number, (prediction, references) in enumerate(cases()):
        if rng.random() < 0.4:
            references = []
        if rng.random() < 0.3:
            prediction = rng.choice(["", no_answer, no_answer.upper() + ".", f" the {no_answer}\nmore", no_answer + " x"])
        first = prediction.split("\n")[0]
        said = "" if normalize_answer(first) == none else first
        name = str(number)
        example = SquadExample(name, "", "", None, None, "", is_impossible=not references,
                               answers=[{"text": text} for text in references])
        scores = squad_evaluate([example], {name: said})
        out.append({"prediction": prediction, "references": references or [no_answer],
                    "exact_match": scores["exact"], "f1": scores["f1"]})
        examples.append(example)
        predictions[name] = said
    means = squad_evaluate(examples, predictions)
    return {"exact_match": means["exact"], "f1": means["f1"]}


def main():
    out = []
    means = version_2(out, sys.argv[2]) if len(sys.argv) > 2 else version_1(out)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(out + [means], file)


if __name__ == "__main__":
    main()
