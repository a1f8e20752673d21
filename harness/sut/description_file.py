"""Reading a description file: YAML in, a checked `Description` out; or where it is wrong, and what
would be right. Of other files of that kind (`harness.sut.external`) as well: `read_form`.

Every error names the file, the line, the field and what is allowed. YAML is read without its traps:
no aliases (a small file could grow without bound), no field given twice, no tags, no depth, at
most `MOST_BYTES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from harness.sut.description import CONTRADICTION, Description, Place
from harness.sut.protocol import UnknownSystem
from harness.sut.templates import UnknownPlaceholder, fill, names_of, peer_names

MOST_BYTES: Final = 256 * 1024
DEEPEST: Final = 12
_Lines = dict[Place, int]
Form = TypeVar("Form", bound=BaseModel)
Wrong = tuple[Place, str]
"""A field, and what is wrong with it."""


class DescriptionError(UnknownSystem):
    """What is wrong with a description file: a line for each fault."""


def read_description(path: Path) -> Description:
    """Raises `DescriptionError`."""
    return parse_description(content_of(path), str(path))


def parse_description(content: bytes, where: str) -> Description:
    """``where`` names it in errors. Raises `DescriptionError`."""
    return parse_form(content, where, Description, wrong_placeholders)


def content_of(path: Path) -> bytes:
    """Raises `DescriptionError` for what cannot be read, or is too much."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DescriptionError(
            f"{path}: {error.strerror}; allowed: a description file (docs/adapters.md)"
        ) from None
    if len(content) > MOST_BYTES:
        raise DescriptionError(f"{path}: larger than {MOST_BYTES // 1024} KiB; allowed: less")
    return content


def parse_form(
    content: bytes, where: str, form: type[Form], wrong: Callable[[Form], Iterator[Wrong]]
) -> Form:
    """``wrong``: what is wrong with one that has the right form. Raises `DescriptionError`."""
    data, lines = _parse(content, where)
    if not isinstance(data, dict):
        raise DescriptionError(f"{where}, line 1: allowed: fields, such as 'name: my-broker'")
    try:
        read = form.model_validate(data)
    except ValidationError as error:
        faults = [says for one in error.errors(include_url=False) for says in _faults(one, form)]
    else:
        faults = list(wrong(read))
        if not faults:
            return read
    says = [_in_words(place, why, lines, where) for place, why in faults]
    raise DescriptionError("\n".join(dict.fromkeys(says)))


# -- YAML -----------------------------------------------------------------------------------------


def _parse(content: bytes, where: str) -> tuple[Any, _Lines]:
    try:
        text = content.decode()
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            _refuse(event, where)
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                mark = event.start_mark
                line = mark.line + 1 if mark is not None else 1
                raise DescriptionError(f"{where}, line {line}: too deep; allowed: a few levels")
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, {}
            lines: _Lines = {}
            for place, line, again in _walk(node, ()):
                if again:
                    name = _name(place)
                    raise DescriptionError(
                        f"{where}, line {line}: field {name}: a second time (first in line "
                        f"{lines[place]}); allowed: once"
                    )
                lines[place] = line
            return loader.construct_document(node), lines
        finally:
            loader.dispose()
    except UnicodeDecodeError as error:
        raise DescriptionError(f"{where}: not UTF-8 ({error.reason}); allowed: text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        why = " ".join(str(getattr(error, "problem", None) or error).split())
        raise DescriptionError(f"{where}{line}: not YAML: {why}") from None
    except ValueError as error:
        if isinstance(error, DescriptionError):
            raise
        raise DescriptionError(f"{where}: not YAML: {error}") from None  # a date of month 13


def _refuse(event: Any, where: str) -> None:
    line = event.start_mark.line + 1
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise DescriptionError(f"{where}, line {line}: an alias; allowed: the text itself")
    tag = getattr(event, "tag", None)
    if tag is not None and tag != "!":
        raise DescriptionError(f"{where}, line {line}: a tag ({tag}); allowed: plain values")


def _walk(node: yaml.Node, place: Place) -> Iterator[tuple[Place, int, bool]]:
    """(place, line, whether it was there before) of every field."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            yield (*place, name), key.start_mark.line + 1, name in seen
            seen.add(name)
            yield from _walk(value, (*place, name))
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield (*place, number), value.start_mark.line + 1, False
            yield from _walk(value, (*place, number))


# -- faults in words ------------------------------------------------------------------------------


def _in_words(place: Place, why: str, lines: _Lines, where: str) -> str:
    line = _nearest(lines, place)
    at = f"{where}, line {line}" if line is not None else where
    field = f": field {_name(place)}" if place else ""
    return f"{at}{field}: {why}"


def _faults(error: Any, form: type[BaseModel]) -> Iterator[Wrong]:
    """(field, what is wrong with it). pydantic marks a key of a mapping by a step of its own."""
    if error["type"] == CONTRADICTION:
        yield from error["ctx"]["found"]
        return
    place = tuple(step for step in error["loc"] if step != "[key]")
    yield place, _says(error, place, form)


def _nearest(lines: _Lines, place: Place) -> int | None:
    """The line of the field, or of what it would lie in."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1 if not place else None)


def _name(place: Place) -> str:
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _says(error: Any, place: Place, form: type[BaseModel]) -> str:
    kind, message, given = error["type"], str(error["msg"]), error.get("input")
    model, field = _described(place, form)
    if kind == "extra_forbidden":
        allowed = ", ".join(_fields(model)) if model is not None else "no such field"
        return f"no such field; allowed: {allowed}"
    if kind == "missing":
        return f"is missing; allowed: {field or 'a value'}"
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    if kind == "literal_error":
        return f"{_short(given)}; allowed: {error['ctx']['expected'].replace(' or ', ', ')}"
    if kind == "string_pattern_mismatch":
        return f"{_short(given)}; allowed: letters a-z, digits and dashes, a letter first"
    plain = message[:1].lower() + message[1:]
    return f"{_short(given)}: {plain}; allowed: {field or plain}"


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _described(place: Place, form: type[BaseModel]) -> tuple[type[BaseModel] | None, str | None]:
    """(the part that the field would belong to, what is said of the field)."""
    part: type[BaseModel] | None = form
    says: str | None = None
    for number, step in enumerate(place):
        if part is None or not isinstance(step, str):
            return None, says
        field = part.model_fields.get(step)
        if field is None:
            return part, None
        says = field.description
        if number == len(place) - 1:
            return part, says
        inner, by_name = _part_of(field.annotation)
        if by_name and inner is not None:
            return _described_in(inner, place[number + 2 :], says)
        part = inner
    return part, says


def _described_in(
    part: type[BaseModel], rest: Place, says: str | None
) -> tuple[type[BaseModel] | None, str | None]:
    if not rest or not isinstance(rest[0], str):
        return part, says
    field = part.model_fields.get(rest[0])
    return part, field.description if field is not None else None


def _part_of(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """(the part that a field holds, whether by name)."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    for argument in get_args(annotation):
        if isinstance(argument, type) and issubclass(argument, BaseModel):
            return argument, True
    return None, False


def _fields(part: type[BaseModel]) -> Mapping[str, Any]:
    return part.model_fields


# -- placeholders ---------------------------------------------------------------------------------


def wrong_placeholders(description: Description) -> Iterator[Wrong]:
    """(field, what is wrong) of every text that asks for what there is not."""
    always: list[str] = list(description.links)
    if "single" in description.planes and "control" in always:
        always.remove("control")  # a text for all planes can name only what is there in all
    zookeeper = description.coordination == "zookeeper"
    names = partial(names_of, zookeeper=zookeeper, metrics=description.metrics is not None)
    known = dict.fromkeys([*names(always), *description.find], "")
    own = {**known, **dict.fromkeys(description.lists, "")}
    dual = {**own, **dict.fromkeys(names(description.links), "")}
    peers = {**known, **dict.fromkeys(peer_names(always), "")}
    texts: list[tuple[Place, str, Mapping[str, str]]] = [
        (("lists", name, "each"), peer.each, peers) for name, peer in description.lists.items()
    ]
    for field in ("argv", "first"):
        of = getattr(description.start, field)
        texts += [(("start", field, number), text, own) for number, text in enumerate(of)]
    texts += [(("start", "env", name), text, own) for name, text in description.start.env.items()]
    for path, file in description.files.items():
        if file.text is not None:
            texts.append((("files", path, "text"), file.text, own))
        for field, of_it in (("properties", own), ("single", own), ("dual", dual)):
            properties = getattr(file, field) or {}
            texts += [(("files", path, field, n), text, of_it) for n, text in properties.items()]
    if description.log_dir is not None:
        texts.append((("log_dir",), description.log_dir, own))
    for place, text, values in texts:
        try:
            fill(text, values)
        except UnknownPlaceholder as error:
            yield place, str(error)
