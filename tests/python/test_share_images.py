"""Images on their way into a batch of share.Loader: bit by bit what numpy makes of them."""
import pytest

numpy = pytest.importorskip("numpy")
share = pytest.importorskip("pergpu.share", reason="the compiled part of the package is not built")


def images_of(channels, height=9, width=8):
    chance = numpy.random.default_rng(1)
    shape = (40, height, width) + ((channels,) if channels else ())
    return chance.integers(0, 256, shape, dtype="uint8")


def rounded(values, dtype):
    """As numpy rounds it, and to bfloat16 by the bits, to the nearest and of two to the even one."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    bits = values.astype("float32").view("uint32").astype("uint64")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("uint16")


@pytest.mark.parametrize("channels", [0, 1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "uint8"])
def test_images_become_what_numpy_makes_of_them(channels, dtype):
    images = images_of(channels)
    count = channels or 1
    options = {"crop": (6, 10), "padding": 2, "dtype": dtype}
    if dtype != "uint8":
        options.update(mean=[0.5, 0.25, 0.1][:count], std=[0.2, 0.5, 2.0][:count])
    loader = share.Loader(
        {"image": images, "at": numpy.arange(40)}, transforms={"image": share.Images(**options)}, batch_size=7, output="numpy"
    )
    whole = numpy.pad(images.reshape(40, 9, 8, count), ((0, 0), (2, 2), (2, 2), (0, 0)))
    top, left = (13 - 6) // 2, (12 - 10) // 2
    expected = whole[:, top : top + 6, left : left + 10].transpose(0, 3, 1, 2)
    if dtype != "uint8":
        each = numpy.float32
        mean, std = (numpy.array(options[name], each).reshape(1, count, 1, 1) for name in ("mean", "std"))
        expected = (expected.astype(each) * each(1 / 255) - mean) / std
    expected = rounded(expected, dtype)
    seen = 0
    for batch in loader:
        result = batch["image"].view("uint16") if dtype == "bfloat16" else batch["image"]
        assert result.dtype == expected.dtype and (result == expected[batch["at"]]).all()
        seen += len(result)
    assert seen == 40


def test_images_are_cut_and_turned_by_seed_epoch_and_row():
    images = images_of(3)
    data = {"image": images, "at": numpy.arange(40)}

    def epochs(**options):
        transform = share.Images(crop=7, random_crop=True, flip=True, dtype="uint8")
        loader = share.Loader(data, transforms={"image": transform}, epochs=2, output="numpy", **options)
        made = {}
        for count, batch in enumerate(loader):
            for at, image in zip(batch["at"].tolist(), batch["image"]):
                made[count // loader.batches, at] = image.tobytes()
        return made

    first = epochs(batch_size=7)
    assert epochs(batch_size=40) == first and epochs(batch_size=7, shuffle=False) == first
    assert epochs(batch_size=7, seed=1) != first
    assert sum(first[0, at] != first[1, at] for at in range(40)) > 20
    for (_, at), image in first.items():
        crops = (images[at, top : top + 7, left : left + 7] for top in range(3) for left in range(2))
        assert image in [cut.transpose(2, 0, 1).tobytes() for one in crops for cut in (one, one[:, ::-1])]


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"dtype": "int8"}, ValueError, "dtype is 'int8'; expected"),
        ({"dtype": "uint8", "mean": 0.5}, ValueError, "bytes can't be normalized"),
        ({"crop": 0}, ValueError, "crop is 0"),
        ({"crop": (1, 2, 3)}, ValueError, r"\(height, width\)"),
        ({"padding": -1}, ValueError, "padding is -1"),
        ({"mean": object()}, TypeError, "expected a number, or one for each channel"),
    ],
)
def test_images_that_cannot_be_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        share.Images(**options)


def test_images_whose_channels_come_first_are_refused():
    with pytest.raises(ValueError, match=r"images of 32 channels.*moveaxis"):
        share.Loader(numpy.zeros((8, 3, 32, 32), "uint8"), batch_size=8, transforms=share.Images(flip=True))
