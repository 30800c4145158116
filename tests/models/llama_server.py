"""llama.cpp's own HTTP server with a model file, as a process of its own: `python -m tests.models.llama_server FILE [GRAMMAR]`.

It prints its address and ends when its standard input does, which is at the latest when whoever started it is gone.
"""

from __future__ import annotations

import sys

import xllamacpp

NAME = "smollm2"


def main(file: str, grammar: str = "") -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = file
    parameters.model_alias = NAME
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_parallel = 2
    parameters.n_ctx = 4096
    # Several threads of one model wait for each other by spinning, which is slow where processors are shared.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.embedding = True
    parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    parameters.endpoint_metrics = True
    parameters.ui = False
    parameters.warmup = False
    if grammar:
        of_user = xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
        parameters.sampling.grammar = xllamacpp.CommonGrammar(of_user, grammar)
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
