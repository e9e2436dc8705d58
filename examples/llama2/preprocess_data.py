"""Text to token files: python preprocess_data.py --input corpus.jsonl --output-prefix data/corpus ..."""

import sys

from mindspeed_llm.errors import UserError, print_error
from mindspeed_llm.preprocess import main

if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        print_error(error)
        sys.exit(1)
