"""The settings of a run, from the environment and from `--set NAME=VALUE`.

Our own variables have the prefix `QUARRY_`; those of OpenAI and Qdrant keep their usual names. An empty variable counts as unset. A
variable with our prefix that is no setting is refused, since a misspelt name would otherwise leave a default in force unseen. Every
fault is one line that says which variable, what it holds and what is legal; keys are never shown.

How sizes and overlaps fit together is checked where a chunker is built, and only for the strategies of the run.
"""

from __future__ import annotations

import difflib
import os
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, PrivateAttr, SecretStr, ValidationError, field_validator
from pydantic_settings import SettingsConfigDict

from chunkers.redaction import shown_address
from flows.model_settings import ModelSettings

if TYPE_CHECKING:
    from stores import Fusion, Recipe

PREFIX = "QUARRY_"

_PARAMETERS = {
    "fixed_size": ("chunk_size", "chunk_overlap"),
    "recursive": ("chunk_size", "recursive_chunk_chars"),
    "sentence": ("chunk_size", "sentence_overlap"),
    "semantic": ("chunk_size", "semantic_threshold", "semantic_threshold_mode", "semantic_min_chunk_size"),
    "contextual_retrieval": (
        "chunk_size",
        "chunk_overlap",
        "context_window_chars",
        "context_scope",
        "context_max_document_tokens",
    ),
    "semantic_parent_child": ("chunk_size", "parent_max_tokens", "semantic_threshold", "semantic_threshold_mode"),
}


class SettingsError(ValueError):
    """Settings that cannot be used; the message has one line for each fault."""


class Settings(ModelSettings):
    """What can be set. A field's title says what it is, its description what is legal.

    Make it with `Settings.load`, which explains what is wrong.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, str_strip_whitespace=True
    )

    chunk_size: int = Field(
        512, ge=1, title="Tokens a chunk has at most", description="a whole number of tokens, at least 1"
    )
    chunk_overlap: int = Field(
        50,
        ge=0,
        title="Tokens shared by neighbouring windows",
        description="a whole number of tokens, at least 0 and less than chunk_size",
    )
    recursive_chunk_chars: int = Field(
        2000,
        ge=1,
        title="Characters that recursive aims at",
        description="a whole number of characters, at least 1",
    )
    sentence_overlap: int = Field(
        2,
        ge=0,
        title="Sentences shared by neighbouring chunks of sentence",
        description="a whole number of sentences, at least 0",
    )
    semantic_threshold: float | None = Field(
        None,
        ge=-1,
        le=100,
        allow_inf_nan=False,
        title="Cosine under which neighbours are parted, or a percentile",
        description="a cosine from -1 to 1, a percentile from 0 to 100, or empty for the model's own",
    )
    semantic_threshold_mode: Literal["absolute", "percentile"] = Field(
        "absolute", title="How semantic_threshold is meant", description="absolute or percentile"
    )
    semantic_min_chunk_size: int = Field(
        5,
        ge=1,
        title="Sentences that a chunk of semantic should have",
        description="a whole number of sentences, at least 1",
    )
    context_window_chars: int = Field(
        500,
        ge=0,
        title="Characters before and after a chunk that the context writer sees",
        description="a whole number of characters, at least 0",
    )
    context_scope: Literal["window", "document"] = Field(
        "window", title="What the context writer sees around a chunk", description="window or document"
    )
    context_max_document_tokens: int = Field(
        100_000,
        ge=1,
        title="Tokens of a document that the context writer sees whole at most",
        description="a whole number of tokens, at least 1",
    )
    parent_max_tokens: int | None = Field(
        None,
        ge=1,
        title="Tokens a parent has at most",
        description="a whole number of tokens, at least chunk_size, or empty for 2048 (or chunk_size if that is more)",
    )
    embedding_model: str = Field(
        "auto",
        min_length=1,
        title="Embedding model",
        description="the name of a model, fastembed: and the name of one of FastEmbed's, wordllama or auto",
    )
    llm_model: str = Field(
        "auto", min_length=1, title="Model that writes contexts", description="the name of a model, outline or auto"
    )
    search_mode: Literal["hybrid", "dense", "sparse"] = Field(
        "hybrid", title="How `quarry search` looks", description="hybrid, dense or sparse"
    )
    fusion_dense_weight: float = Field(
        0.5,
        ge=0,
        allow_inf_nan=False,
        title="Weight of meaning in hybrid search",
        description="a number, at least 0",
    )
    fusion_sparse_weight: float = Field(
        1.0,
        ge=0,
        allow_inf_nan=False,
        title="Weight of words in hybrid search",
        description="a number, at least 0",
    )
    fusion_k: int = Field(5, ge=1, title="Constant k of the reciprocal ranks", description="a whole number, at least 1")
    fusion_candidates: int = Field(
        50,
        ge=1,
        title="Chunks that each side of hybrid search fetches at least",
        description="a whole number of chunks, at least 1",
    )
    schedule: str = Field(
        "0 4 * * *",
        min_length=1,
        title="When `quarry serve` ingests",
        description="five fields of cron, such as '0 4 * * *' for 04:00 every day",
    )
    time_zone: str = Field(
        "UTC",
        min_length=1,
        title="Time zone of the schedule",
        description="a name of the time zone database, such as Europe/Berlin",
    )
    task_runner: Literal["threads", "processes", "dask"] = Field(
        "threads", title="Who does the tasks of a run", description="threads, processes or dask"
    )
    task_workers: int | None = Field(
        None,
        ge=1,
        title="Worker processes",
        description="a whole number of processes, at least 1, or empty for one a processor",
    )
    dask_address: str | None = Field(
        None,
        pattern=r"^\S+$",
        title="Scheduler of a Dask cluster",
        description="an address such as tcp://127.0.0.1:8786, or empty for a cluster of this machine's own for each run",
    )
    cache_max_mb: int = Field(
        4096,
        ge=1,
        title="Megabytes that the cache of models' answers may take",
        description="a whole number of megabytes, at least 1",
    )
    home: Path = Field(Path(".quarry"), validate_default=True, description="a folder")
    openai_api_key: SecretStr | None = Field(None, validation_alias="OPENAI_API_KEY", description="a key")
    openai_base_url: str | None = Field(
        None,
        validation_alias="OPENAI_BASE_URL",
        pattern=r"^https?://\S+$",
        description="an address that starts with http:// or https://",
    )
    qdrant_url: str | None = Field(
        None, validation_alias="QDRANT_URL", pattern=r"^\S+$", description="an address such as http://localhost:6333"
    )
    qdrant_api_key: SecretStr | None = Field(None, validation_alias="QDRANT_API_KEY", description="a key")
    _given: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @field_validator("home", "model_folder", mode="after")
    @classmethod
    def _absolute(cls, folder: Path | None) -> Path | None:
        # A deployed flow runs in a temporary folder, so a relative path holds only where it was read.
        return None if folder is None else Path(os.path.abspath(os.path.expanduser(folder)))

    @field_validator("openai_api_key", "qdrant_api_key", mode="before")
    @classmethod
    def _stripped(cls, key: Any) -> Any:
        # A key read from a file often ends in a newline, which no header can hold.
        return key.strip() or None if isinstance(key, str) else key

    @classmethod
    def load(cls, overrides: Mapping[str, str] | None = None) -> Self:
        """The settings of the environment, those in `overrides` put over them.

        Raises:
            SettingsError: a variable or a name is unknown, or a value cannot be used.
        """
        faults = _unknown_variables()
        if faults:
            raise SettingsError("\n".join(faults))
        return cls._build(overrides or {})

    @property
    def given(self) -> dict[str, str]:
        """What was given for this run alone, by field, as `load` takes it. No key is ever among it."""
        # A folder was meant from where it was read.
        folders = {name: str(getattr(self, name)) for name in ("home", "model_folder") if self._given.get(name)}
        return {**self._given, **folders}

    def strategy_parameters(self, strategy: str) -> dict[str, Any]:
        """What `chunkers.build_chunker` takes for this strategy besides its models.

        Raises:
            SettingsError: there is no such strategy.
        """
        if strategy not in _PARAMETERS:
            raise SettingsError(f"strategy: {strategy!r} cannot be used; it must be one of {', '.join(_PARAMETERS)}")
        # An overlap that nobody asked for is the chunker's to choose, so that a small chunk_size can be set alone.
        unset = {"chunk_overlap"} - self.model_fields_set
        return {name: None if name in unset else getattr(self, name) for name in _PARAMETERS[strategy]}

    def fusion(self) -> Fusion:
        """How hybrid search fuses.

        Raises:
            SettingError: both weights are 0.
        """
        from stores import Fusion

        return Fusion(
            dense_weight=self.fusion_dense_weight,
            sparse_weight=self.fusion_sparse_weight,
            k=self.fusion_k,
            candidates=self.fusion_candidates,
        )

    def as_stored(self, recipe: Recipe) -> Self:
        """These settings with the parameters and models that a collection was made with."""
        # A recipe that says nothing of the scope is of the window.
        stored = {"context_scope": "window", **recipe.parameters, "embedding_model": recipe.embedding_model}
        if recipe.context_model:
            stored["llm_model"] = recipe.context_model
        return self.model_copy(update=stored)

    @classmethod
    def _build(cls, overrides: Mapping[str, str]) -> Self:
        values: dict[str, Any] = {}
        for name, value in overrides.items():
            field = _field_name(name)
            values[field] = value if value.strip() else cls.model_fields[field].default
        told = {_field_name(name): name for name in overrides}
        try:
            made = cls(
                **{str(cls.model_fields[name].validation_alias or name): value for name, value in values.items()}
            )
            made._given = {field: overrides[name] for field, name in told.items()}
            return made
        except ValidationError as error:
            faults = [_explain(fault["loc"][0], fault["input"], told) for fault in error.errors(include_url=False)]
        raise SettingsError("\n".join(dict.fromkeys(faults)))


def variable(field: str) -> str:
    """The environment variable of a setting."""
    return str(Settings.model_fields[field].validation_alias or PREFIX + field.upper())


def _field_name(name: str) -> str:
    """The field that `--set` means by `name`. Case does not matter, `-` may stand for `_`, and the prefix may be there.

    Raises:
        SettingsError: it means none, or a key, which does not belong on a command line.
    """
    wanted = name.strip().lower().replace("-", "_").removeprefix(PREFIX.lower())
    if wanted.endswith("_api_key") and wanted in Settings.model_fields:
        raise SettingsError(f"{name}: a key is only read from the environment; set {variable(wanted)}")
    known = sorted(field for field in Settings.model_fields if not field.endswith("_api_key"))
    if wanted not in known:
        raise SettingsError(f"{name}: no such setting; known are {', '.join(known)}")
    return wanted


def _unknown_variables() -> list[str]:
    known = [variable(field) for field in Settings.model_fields]
    faults = []
    for name, value in sorted(os.environ.items()):
        if name.upper().startswith(PREFIX) and name.upper() not in known and value:
            nearest = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.0)[0]
            faults.append(f"{name}: no such setting; the nearest name is {nearest}")
    return faults


def _explain(location: int | str, value: object, told: Mapping[str, str]) -> str:
    """One line about a fault. `told` has the names that the user wrote, by field."""
    field = next(name for name in Settings.model_fields if location in (name, variable(name)))
    secret = field.endswith("_api_key")
    if field.endswith(("_url", "_address")):
        value = shown_address(str(value))
    shown = "what it holds" if secret else reprlib.repr(value)
    return f"{told.get(field, variable(field))}: {shown} cannot be used; it must be {Settings.model_fields[field].description}"
