"""The section "Use" in the README of an exported adapter: what it is, and the lines that use it."""

from __future__ import annotations

from typing import Any

_PEFT = """\
base = AutoModel.from_pretrained(BASE)  # {backbone}
model = PeftModel.from_pretrained(base, FOLDER).eval()
tokenizer = AutoTokenizer.from_pretrained(BASE)"""
_MERGED = """\
model = AutoModel.from_pretrained(FOLDER).eval()
tokenizer = AutoTokenizer.from_pretrained(FOLDER)"""
_PAGE = """\
{what} It was trained by fedkin on token numbers of length {length}.

* Backbone: {backbone}. The SHA-256 of its weights in fedkin begins with `{digest}`.
* Classes: {labels}.
* `head.safetensors` has the last layer, `weight` [{classes}, d] and `bias` [{classes}]. It takes
  the mean over the tokens of a text, so it is no part of a class of transformers.

```python
import torch
from safetensors.torch import load_file
from transformers import {imports}

{loading}
head = load_file(f"{{FOLDER}}/head.safetensors")

batch = tokenizer(
    texts, padding=True, truncation=True, max_length={length}, return_tensors="pt"
)
with torch.inference_mode():
    hidden = model(**batch).last_hidden_state
mask = batch["attention_mask"][..., None]
mean = (hidden * mask).sum(1) / mask.sum(1)
scores = mean @ head["weight"].T + head["bias"]
```
"""
_WHAT = {
    "peft": "Low-rank factors of a frozen backbone, for the library peft.",
    "merged": "A backbone whose weights have the trained low-rank factors added.",
}


def readme(facts: dict[str, Any]) -> str:
    """The page.

    Args:
        facts: ``format``, ``backbone``, ``digest``, ``labels`` (or None), ``classes`` and
            ``length``.
    """
    is_peft = facts["format"] == "peft"
    imports = "AutoModel, AutoTokenizer"
    if is_peft:
        imports += "\nfrom peft import PeftModel"
    names = facts["labels"]
    shown = range(facts["classes"]) if names is None else names
    loading = (_PEFT if is_peft else _MERGED).format(backbone=facts["backbone"])
    return _PAGE.format(
        what=_WHAT[facts["format"]],
        length=facts["length"],
        backbone=facts["backbone"],
        digest=facts["digest"][:12],
        labels=", ".join(map(str, shown)),
        classes=facts["classes"],
        imports=imports,
        loading=loading,
    )
