"""Every statement of the specification has a test, and the page says which."""

from tests.conformance.table import PAGE, page, proofs, statements


def test_no_statement_is_without_a_test() -> None:
    proved = {number for proof in proofs() for number in proof.numbers}
    assert [
        f"{number} {text}" for number, text in statements().items() if number not in proved
    ] == []


def test_no_test_proves_what_is_no_statement() -> None:
    known = statements().keys()
    unknown = {proof.name: set(proof.numbers) - known for proof in proofs()}
    assert {name: numbers for name, numbers in unknown.items() if numbers} == {}


def test_the_page_is_made_of_the_marks() -> None:
    assert PAGE.read_text() == page(), "make publish"
