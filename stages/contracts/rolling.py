"""Rolling medians, and values that lie far from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def outliers(values: NDArray[np.float64], window: int, k: float) -> list[tuple[int, float]] | None:
    """(place, median of the `window` values before it) of each value further from that median than k MADs of these values, and than k
    times the median of all such distances; None when more than half of the values are equal. There are more values than `window`.

    The first `window` values have too few before them: each is held against the others among the first `window` + 1. Where the very first
    one lies far away, the series comes in from there: up to two near values in a row nothing is an outlier."""
    import bottleneck  # ten times as fast as numpy's partition of every window, and twice as fast on the whole
    import numpy as np

    if bottleneck.median(np.abs(values - bottleneck.median(values))) == 0.0:
        return None
    medians = bottleneck.move_median(np.ascontiguousarray(values), window)[window - 1 : -1]
    distances = np.abs(values[window:] - medians)
    usual = float(bottleneck.median(distances))
    found = _early(values[: window + 1], k, usual)
    for index in np.flatnonzero(distances > k * usual).tolist():  # few: only of these the MAD is asked for
        before = values[index : index + window]
        if distances[index] > k * bottleneck.median(np.abs(before - bottleneck.median(before))):
            found.append((index + window, float(medians[index])))
    return found


def _early(values: NDArray[np.float64], k: float, usual: float) -> list[tuple[int, float]]:
    """The same for all but the last of these values, each against the others. `usual`: the median distance of the whole series."""
    import bottleneck
    import numpy as np

    n = len(values) - 1
    others = np.broadcast_to(values, (n, n + 1))[~np.eye(n, n + 1, dtype=bool)].reshape(n, n)
    middles = bottleneck.median(others, axis=1)
    distances = np.abs(values[:-1] - middles)
    far = (distances > k * usual) & (distances > k * bottleneck.median(np.abs(others - middles[:, None]), axis=1))
    if not far.any():
        return []
    found: list[tuple[int, float]] = []
    near = 2
    for place, (away, middle) in enumerate(zip(far.tolist(), middles.tolist(), strict=True)):
        if away and place == 0:
            near = 0
        elif near < 2:
            near = 0 if away else near + 1
        elif away:
            found.append((place, middle))
    return found
