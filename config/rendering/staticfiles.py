"""Store static files compressed, with a hash of their content in the name."""

from typing import Any

from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage


class QuickCompressor(Compressor):  # type: ignore[misc]
    """Compress with gzip only: each start compresses, and Brotli would take most of its time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options | {"use_brotli": False})


class GzippedManifest(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    def create_compressor(self, **options: Any) -> Compressor:
        return QuickCompressor(**options)
