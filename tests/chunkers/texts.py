"""Texts that several tests need: prose in six scripts, and a markdown document with one of everything."""

from __future__ import annotations

SCRIPTS = {
    "latin": "Grüße aus Köln! The quick brown fox, aged 12, didn't jump over 3,456 lazy dogs.\r\n\r\nNaïve café — “quoted”. ",
    "cyrillic": "Съешь же ещё этих мягких французских булок, да выпей чаю. Всего 25 штук!\n",
    "arabic": "مرحبا بالعالم؟ نعم، هذا نص عربي رقم ١٢٣.\n\n",
    "devanagari": "नमस्ते दुनिया। यह हिन्दी का वाक्य है, संख्या १२३।\t",
    "chinese": "今天天气很好。我们去公园吧！“好的，”他说，“3点见。”",
    "emoji": "👨‍👩‍👧‍👦 and 🇩🇪🇫🇷🇯🇵, e\u0301 a\u0301\u0302 🚀🚀 ½²Ⅷ <|endoftext|> ",
}

DOCUMENT = """Preamble before any heading.

# Title

Introduction. It has two sentences.

## 24/7 support

- first item
- second item
  - nested item

```python
# no heading
x = 1
```

| name | value |
|------|-------|
| a | 1 |
| b | 2 |

### Deep

Text under deep.

## Second

> quoted text

Last paragraph.
"""
