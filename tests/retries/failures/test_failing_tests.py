"""Names of failing tests in the output of test runners."""

import pytest

from retries.failures.outputs.failing_tests import find_failing_test


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ("FAILED tests/test_a.py::test_b - assert 1", "test_b"),
        ("ERROR tests/test_a.py::TestA::test_b[x-1]", "TestA.test_b"),
        ("____ test_empty ____\n\nE   Failed: DID NOT RAISE", "test_empty"),
        ("FAIL: test_total (tests.test_order.OrderTest)", "test_total"),
        ("=== RUN TestTotal\n--- FAIL: TestTotal/zero (0.00s)", "TestTotal/zero"),
        ("---- order::adds stdout ----", "order.adds"),
        ("  \u25cf order \u203a totals\n", "order \u203a totals"),
        (" FAIL  src/a.test.ts > order > totals\n", "order > totals"),
        ("[ERROR]   OrderTest.total:12 expected: <3>", "OrderTest.total"),
        ("OrderTest > total() FAILED", "OrderTest > total()"),
        ("  Failed Shop.OrderTests.Total [12 ms]", "Shop.OrderTests.Total"),
        ("rspec ./spec/order_spec.rb:10 # Order totals", "Order totals"),
        ("[  FAILED  ] Order.Totals (0 ms)", "Order.Totals"),
        ("not ok 3 - totals the lines", "totals the lines"),
        ("  \u2715 slow (222 ms)", "slow"),
        ("1) Tests\\OrderTest::testTotal", "Tests\\OrderTest.testTotal"),
        ("ok 1 - adds\nPASS\nError: no", ""),
    ],
)
def test_the_first_failing_test_is_found(output: str, name: str) -> None:
    assert find_failing_test("collecting\n" + output) == name
