"""The controller: the one broker that decides who leads what, and tells the others.

`nodes.controller.controller.KafkaController` is the door; `parts` lists what is behind it.
"""
