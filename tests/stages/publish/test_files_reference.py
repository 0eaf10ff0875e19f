from files_reference import PAGE, generated


def test_the_reference_of_files_is_that_of_the_contracts() -> None:
    assert PAGE.read_text(encoding="utf-8") == generated(), "run: make fix"
