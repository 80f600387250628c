"""Sound configurations of every kind, to be damaged."""

RUN = """\
[data]
name = "synthetic"
clients = 8
[model]
name = "mlp"
hidden = 8
[method]
name = "flexcfl"
clusters = 2
migration = "label_aware"
[local]
epochs = 2
lr = 0.1
schedule = "cosine"
[run]
rounds = 3
cohort = 4
against = ["fedavg"]
patience = 3
[scenario]
dropout = 0.1
arrivals = {2 = 3}
[shift]
name = "swap_all"
probability = 0.1
"""

COMPARISON = """\
[data]
name = "digits"
clients = 8
[method]
name = "ifca"
clusters = 2
[compare]
methods = ["fedavg", "fedgroup"]
seeds = 2
[compare.grid]
"local.lr" = [0.1, 0.2]
"""

SERVER = """\
[federation]
name = "trial"
capacity = 8
wait_for = 4
deadline = 120.0
quorum = 0.5
[samples]
shape = [4]
classes = 3
[model]
name = "mclr"
[method]
name = "ifca"
clusters = 2
[local]
epochs = 2
lr = 0.1
[run]
rounds = 3
cohort = 4
"""

CLIENT = """\
[client]
name = "berlin"
federation = "trial"
folder = "state"
[samples]
shape = [2]
classes = 2
labels = ["a", "b"]
[model]
name = "mclr"
[data]
name = "file"
path = "mine.csv"
"""

PEER = """\
[peer]
name = "ada"
federation = "trial"
folder = "ada"
[network]
listen = ["tcp/127.0.0.1:7450"]
[data]
name = "digits"
clients = 8
[model]
name = "mclr"
[method]
name = "panm"
[run]
rounds = 3
"""
