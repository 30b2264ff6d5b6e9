-- | RFC 3629's grammar as a table, made from its rules and from nothing else; what the
-- UTF-8 decoders are held against.
module Utf8Automaton
  ( verdictOf,
    verdictAfter,
    Table,
    table,
    accepting,
    dead,
    initial,
    step,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.List (elemIndex, nub, sort)
import Data.Maybe (fromJust)
import Data.Primitive.PrimArray (PrimArray, indexPrimArray, primArrayFromList)
import Data.Word (Word8)
import Heddle.Bytes.Utf8 (Invalid (..))

-- | What may follow: rows of ranges of bytes.
type Rows = [[(Word8, Word8)]]

-- | Section 4 of the RFC, row by row.
grammar :: Rows
grammar =
  [ [(0x00, 0x7f)],
    [(0xc2, 0xdf), tail_],
    [(0xe0, 0xe0), (0xa0, 0xbf), tail_],
    [(0xe1, 0xec), tail_, tail_],
    [(0xed, 0xed), (0x80, 0x9f), tail_],
    [(0xee, 0xef), tail_, tail_],
    [(0xf0, 0xf0), (0x90, 0xbf), tail_, tail_],
    [(0xf1, 0xf3), tail_, tail_, tail_],
    [(0xf4, 0xf4), (0x80, 0x8f), tail_, tail_]
  ]
  where
    tail_ = (0x80, 0xbf)

follow :: Rows -> Word8 -> Rows
follow rows b = case [row | (low, high) : row <- rows, b >= low, b <= high] of
  [[]] -> grammar
  left -> left

-- | The state after each byte, by state: 256 entries each.
newtype Table = Table (PrimArray Word8)

states :: [Rows]
states = close [[], grammar]
  where
    close known = case nub (known ++ [follow rows b | rows <- known, b <- [0 .. 255]]) of
      more
        | length more == length known -> known
        | otherwise -> close more

table :: Table
table = Table (primArrayFromList [number (follow rows b) | rows <- states, b <- [0 .. 255]])
  where
    number rows = fromIntegral (fromJust (elemIndex (sort rows) (map sort states)))

-- | Nothing can follow; and between two characters.
dead, initial :: Word8
dead = 0
initial = 1

accepting :: Word8 -> Bool
accepting = (== initial)

step :: Table -> Word8 -> Word8 -> Word8
step (Table entries) state b = indexPrimArray entries (fromIntegral state * 256 + fromIntegral b)

-- | Where a text stops being valid, and the maximal subpart there.
verdictOf :: ByteString -> Maybe Invalid
verdictOf = verdictAfter 0

-- | The same, with the bytes before it.
verdictAfter :: Int -> ByteString -> Maybe Invalid
verdictAfter before text = go 0 0 initial
  where
    go begun at state
      | at == ByteString.length text =
        if accepting state then Nothing else Just (Invalid (before + begun) (at - begun))
      | accepting next = go (at + 1) (at + 1) next
      | next == dead = Just (Invalid (before + begun) (max 1 (at - begun)))
      | otherwise = go begun (at + 1) next
      where
        next = step table state (ByteString.index text at)
