"""BabyAI's levels: rooms in which an agent follows an instruction in words, as in MiniGrid 3.2.0."""
