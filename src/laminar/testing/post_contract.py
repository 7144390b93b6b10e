"""What every post must do (parallel/stages/post.py): subclass, and give the two ends of one."""

from __future__ import annotations

import threading

import torch

from laminar.parallel.stages.post import Post


class PostContract:
    rooms = 3  # messages that fit
    seen = True  # whether a message has arrived can be seen

    def ends(self) -> tuple[Post, Post]:
        """Of a new post whose messages have at most 4 x 5 float32 numbers: where things are sent, and where they are received."""
        raise NotImplementedError

    def test_messages_arrive_in_the_order_they_were_sent_in(self) -> None:
        sender, taker = self.ends()
        for _ in range(self.rooms):
            taker.expect((4, 5), torch.float32)
        for i in range(self.rooms):
            sender.send(torch.full((4, 5), float(i)))
        found = [taker.receive() for _ in range(self.rooms)]
        assert [float(one.mean()) for one in found] == [0.0, 1.0, 2.0]
        assert sender.sent == self.rooms * 80

    def test_whether_a_message_is_there_is_seen_without_waiting(self) -> None:
        sender, taker = self.ends()
        taker.expect((4, 5), torch.float32)
        assert taker.arrived is not self.seen
        sender.send(torch.ones(4, 5))
        while not taker.arrived:
            threading.Event().wait(0.001)
        taker.receive()

    def test_what_was_sent_does_not_change_with_its_tensor(self) -> None:
        sender, taker = self.ends()
        taker.expect((4, 5), torch.float32)
        own = torch.ones(4, 5)
        sender.send(own)
        own.zero_()
        assert float(taker.receive().sum()) == 20

    def test_sizes_and_kinds_may_change_from_message_to_message(self) -> None:
        sender, taker = self.ends()
        messages = [torch.arange(10).view(5, 2), torch.rand(3, 4).t(), torch.empty(0, 5), torch.tensor(True).view(1)]
        for message in messages:
            taker.expect(message.shape, message.dtype)
            sender.send(message)
            found = taker.receive()
            assert found.dtype == message.dtype
            assert torch.equal(found, message)
            taker.release()

    def test_room_is_made_by_what_is_released(self) -> None:
        sender, taker = self.ends()
        count = 20 * self.rooms

        def send() -> None:
            for i in range(count):
                sender.send(torch.full((4, 5), float(i)))

        thread = threading.Thread(target=send)
        thread.start()
        for i in range(count):
            taker.expect((4, 5), torch.float32)
            assert float(taker.receive().mean()) == i
            taker.release()
        thread.join()

    def test_what_was_received_stays_until_it_is_released(self) -> None:
        sender, taker = self.ends()
        for _ in range(self.rooms):
            taker.expect((4, 5), torch.float32)
            sender.send(torch.ones(4, 5))
        kept = [taker.receive() for _ in range(self.rooms)]
        thread = threading.Thread(target=lambda: sender.send(torch.zeros(4, 5)))
        thread.start()  # waits, or has a room of its own
        assert all(float(one.sum()) == 20 for one in kept)
        taker.expect((4, 5), torch.float32)
        for _ in kept:
            taker.release()
        assert float(taker.receive().sum()) == 0
        thread.join()
