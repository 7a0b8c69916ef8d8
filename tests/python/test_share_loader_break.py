"""What a `for` over a loader does that begins after one that was left by `break`."""
import pytest

from test_share_loader import ROWS, loader_of, order, places


def left_after(loader, count):
    return places(batch for _, batch in zip(range(count), loader))


def test_the_rest_of_an_interrupted_for_comes_when_it_is_asked_for():
    loader = loader_of()
    for batch in loader:
        first = batch["at"].tolist()
        break
    assert first + places(loader.rest()) == order(ROWS, 0, 0)
    assert places(loader) == order(ROWS, 0, 1)


@pytest.mark.parametrize("left", [1, 5, 11])
def test_an_interrupted_for_starts_over_with_the_next_epoch(left):
    loader = loader_of()
    assert left_after(loader, left) == order(ROWS, 0, 0)[: 10 * left]
    assert places(loader) == order(ROWS, 0, 1)
    assert places(loader) == order(ROWS, 0, 2)


def test_of_several_epochs_all_start_over():
    loader = loader_of(epochs=2)
    left_after(loader, 13)
    assert places(loader) == order(ROWS, 0, 2) + order(ROWS, 0, 3)
    left_after(loader, 11)  # the whole first epoch, and none of the second
    assert places(loader) == order(ROWS, 0, 6) + order(ROWS, 0, 7)


def test_a_stream_without_an_end_goes_on():
    loader = loader_of(epochs=None)
    assert left_after(loader, 3) + left_after(loader, 8) == order(ROWS, 0, 0)


def test_a_state_and_an_epoch_are_gone_on_with():
    loader = loader_of()
    left_after(loader, 3)
    state = loader.state_dict()
    left_after(loader, 3)
    loader.load_state_dict(state)
    assert places(loader) == order(ROWS, 0, 0)[30:]
    left_after(loader, 3)
    loader.set_epoch(loader.epoch)
    assert places(loader) == order(ROWS, 0, 1)[30:]
