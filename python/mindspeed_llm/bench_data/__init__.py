"""``mindspeed bench data``: encoding, preprocessing, deduplication and training of vocabularies beside the peers."""
