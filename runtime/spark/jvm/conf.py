"""Settings of a session that are others for some time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from pyspark.sql import SparkSession

from mrql.runtime.spark.jvm.handles import handles


@attrs.frozen
class Switch:
    """Settings of a session that are to be others for some time: on and off by a call or two, where each setting would
    take one to be read, one to be set and one to be set back."""

    conf: Any
    current: Any
    """The settings of the session, as they are at any time."""
    before: Any
    """The settings for which this was made."""
    wanted: Any
    restored: Any
    removed: Any

    @staticmethod
    def of(spark: SparkSession, wanted: Mapping[str, str]) -> Switch:
        """What there is to do for settings that are wanted, as those of the session are now."""
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
        """Sets them."""
        if self.wanted is not None:
            self.conf.setConf(self.wanted)

    def off(self) -> None:
        """Sets back what was set otherwise before."""
        if self.restored is not None:
            self.conf.setConf(self.restored)
        if self.removed is not None:
            self.current.keySet().removeAll(self.removed)
