"""Settings of a session that are changed temporarily."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from pyspark.sql import SparkSession

from mrql.runtime.spark.jvm.handles import handles


@attrs.frozen
class Switch:
    """Settings of a session that are changed temporarily: switched on and off with a call or two, instead of one call
    for each setting to read it, one to set it and one to restore it."""

    conf: Any
    current: Any
    """The live settings of the session."""
    before: Any
    """A copy of the settings for which this was made."""
    wanted: Any
    restored: Any
    removed: Any

    @staticmethod
    def of(spark: SparkSession, wanted: Mapping[str, str]) -> Switch:
        """The changes that are necessary for the wanted settings, given the current ones of the session."""
        util = handles(spark).util
        before = {key: spark.conf.get(key, None) for key in wanted}
        changed, restored, removed = util.Properties(), util.Properties(), util.ArrayList()
        for key, value in wanted.items():
            old = before[key]
            if old == value:
                continue
            changed.setProperty(key, value)
            removed.add(key) if old is None else restored.setProperty(key, old)
        conf = spark._jsparkSession.sessionState().conf()
        current = conf.settings()
        return Switch(
            conf,
            current,
            util.HashMap(current),
            None if changed.isEmpty() else changed,
            None if restored.isEmpty() else restored,
            None if removed.isEmpty() else removed,
        )

    def fits(self) -> bool:
        """Whether the settings of the session are those for which this was made."""
        return bool(self.current.equals(self.before))

    def on(self) -> None:
        """Sets the wanted values."""
        if self.wanted is not None:
            self.conf.setConf(self.wanted)

    def off(self) -> None:
        """Restores the previous values."""
        if self.restored is not None:
            self.conf.setConf(self.restored)
        if self.removed is not None:
            self.current.keySet().removeAll(self.removed)
