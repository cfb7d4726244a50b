"""`python -m jobauto_prefect.facade.openapi`: the document, as it is published."""

import sys

from jobauto_prefect.facade.openapi.document import document_text

if __name__ == "__main__":
    sys.stdout.write(document_text())
