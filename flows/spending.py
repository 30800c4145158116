"""What a run's models counted, put into a strategy's report, and what it costs."""

from __future__ import annotations

from chunkers import SettingError
from chunkers.models import RehearsedContextWriter, RehearsedEmbedder, Usage
from flows.models import USES_VECTORS, Tools
from flows.report import StrategyReport
from flows.request import Request
from flows.settings import Settings, variable
from flows.workers import THREADS


def check_budget(request: Request, settings: Settings, tools: dict[str, Tools]) -> None:
    """Refuses a budget that could not be kept.

    Raises:
        SettingError: the price of a model is not known, or other processes would spend, too.
    """
    if request.max_cost is None:
        return
    if settings.task_runner != THREADS:
        raise SettingError(
            "max_cost",
            request.max_cost,
            f"left out with {variable('task_runner')}={settings.task_runner}: processes do not know "
            "what the others spend",
        )
    models = {name: None for own in tools.values() for name in (own.recipe.embedding_model, own.recipe.context_model)}
    for model in filter(None, models):
        if settings.price_of(model) is None:
            raise SettingError(
                "max_cost",
                request.max_cost,
                f"left out, or {variable('prices')} must tell the price of {model}, which is not known",
            )


def count_usage(report: StrategyReport, tools: Tools) -> None:
    """Takes over what the models of a strategy have counted so far."""
    embedder, contexts = tools.embedder, tools.context_writer
    report.embedded, report.cached = embedder.sent, embedder.cached
    if contexts:
        report.contexts, report.fallbacks = contexts.sent, contexts.fallbacks
    models = [model for model in (embedder, contexts) if isinstance(model, RehearsedEmbedder | RehearsedContextWriter)]
    report.spared_tokens = sum(model.spared for model in models)
    decisive = contexts, embedder if tools.recipe.strategy in USES_VECTORS else None
    report.guessed = any(model.guessed for model in models if model in decisive)
    texts, prompts = embedder.usage, contexts.usage if contexts else Usage()
    report.requests = texts.requests + prompts.requests
    report.embedding_tokens = texts.prompt_tokens
    report.prompt_tokens, report.cached_prompt_tokens = prompts.prompt_tokens, prompts.cached_tokens
    report.answer_tokens = prompts.answer_tokens
    report.uncounted = not models and (texts.estimated or prompts.estimated)
    put_price(report, tools)


def put_price(report: StrategyReport, tools: Tools) -> None:
    """Puts a price on the tokens that a report holds, if that of every model is known that was asked for some."""
    texts = Usage(0, report.embedding_tokens)
    prompts = Usage(0, report.prompt_tokens, report.cached_prompt_tokens, report.answer_tokens)
    cost = 0.0
    for model, usage in ((tools.recipe.embedding_model, texts), (tools.recipe.context_model, prompts)):
        price = tools.price_of(model or "")
        if price is None and usage.prompt_tokens:
            report.cost = None
            return
        cost += price.of(usage) if price else 0.0
    report.cost = cost
