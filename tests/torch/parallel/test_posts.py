"""Posts between stages, in memory and over sockets."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
import torch

from laminar.parallel.meeting import Broken
from laminar.parallel.segment import Segment
from laminar.parallel.stages.gloo_post import GlooPost
from laminar.parallel.stages.post import Post
from laminar.parallel.stages.shared_post import SharedPost, post_bytes
from laminar.parallel.sync.process_group import Group, serve_store
from laminar.testing.post_contract import PostContract
from laminar.testing.thread_lines import ThreadPost


class TestInMemory(PostContract):
    @pytest.fixture(autouse=True)
    def _segment(self) -> Iterator[None]:
        self.segment = Segment.create(64 + post_bytes(80, self.rooms))
        yield
        self.segment.close()

    def post(self, timeout: float = 20.0) -> SharedPost:
        return SharedPost(self.segment, 64, 80, self.rooms, timeout=timeout)

    def ends(self) -> tuple[Post, Post]:
        return self.post(), self.post()

    def test_nobody_waits_for_ever(self) -> None:
        taker = self.post(timeout=0.01)
        taker.expect((4, 5), torch.float32)
        with pytest.raises(Broken):
            taker.receive()
        with pytest.raises(Broken):  # and the other end hears of it
            self.post().send(torch.ones(1))

    def test_whoever_is_called_off_leaves(self) -> None:
        sender, taker = self.post(), self.post()
        taker.expect((4, 5), torch.float32)
        found: list[BaseException] = []

        def receive() -> None:
            try:
                taker.receive()
            except Broken as error:
                found.append(error)

        thread = threading.Thread(target=receive)
        thread.start()
        self.segment.words(64, 1)[0] = 1  # as the chief does
        thread.join()
        assert found
        with pytest.raises(Broken):
            sender.send(torch.ones(1))


class TestOverGloo(PostContract):
    seen = False

    def ends(self) -> tuple[Post, Post]:
        store = serve_store("127.0.0.1", None)
        groups: dict[int, Group] = {}

        def make(rank: int) -> None:
            groups[rank] = Group("127.0.0.1", store.port, rank, 2, bind="127.0.0.1", timeout=20)

        threads = [threading.Thread(target=make, args=(rank,)) for rank in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return GlooPost(groups[0], 1, 7, self.rooms), GlooPost(groups[1], 0, 7, self.rooms)

    def test_what_has_left_is_not_kept(self) -> None:
        sender, taker = self.ends()
        for _ in range(4 * self.rooms):
            taker.expect((4, 5), torch.float32)
            sender.send(torch.ones(4, 5))
            taker.receive()
        assert isinstance(sender, GlooPost)
        assert len(sender._leaving) <= self.rooms


class TestBetweenThreads(PostContract):
    def ends(self) -> tuple[Post, Post]:
        post = ThreadPost()
        return post, post


def test_a_segment_has_room_for_posts_of_nothing() -> None:
    segment = Segment.create(post_bytes(0, 2))
    sender, taker = (SharedPost(segment, 0, 0, 2, timeout=1.0) for _ in range(2))
    taker.expect((0, 3), torch.float32)
    sender.send(torch.empty(0, 3))
    assert taker.receive().shape == (0, 3)
    assert os.fstat(segment.fd).st_size
    segment.close()
