"""``python -m mindspeed_llm`` is the command ``mindspeed``; use it so under torchrun."""

import sys

from mindspeed_llm.command_line import main

sys.exit(main())
