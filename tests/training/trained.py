"""Everything that a few steps of training give: weights, mutable state, metrics."""

from samebits.training.params import weights_hash
from samebits.training.trainer import Trainer


def trained(family, config, device, links=None, steps=3):
    trainer = Trainer(family, config, device, links=links)
    rows = [trainer.step() for _ in range(steps)]
    rows.append(trainer.evaluate(family.evaluation(config, trainer.data, False)))
    state = {name: device.download(array).tobytes() for name, array in trainer.model.state.items()}
    return weights_hash(device.download(trainer.params)), state, rows
