-- |
-- Module      : Heddle.Testkit.CollidingKeys
-- Description : Keys chosen to have equal hashes
-- Stability   : internal, exempt from the version policy
--
-- What an attacker sends to flood a hash table (keys that collide in FNV-1 or in hashable, or share a path in a trie),
-- and random keys of the same shape and length, with which tests and benchmarks compare them.
--
-- Cost: lazy lists; a key takes time in proportion to its length.
module Heddle.Testkit.CollidingKeys
  ( -- * Chosen to collide
    fnvKeys,
    pairKeys,
    strideKeys,

    -- * Random

    -- | Without end, and the same in every run.
    randomFnvKeys,
    randomPairs,
    randomInts,
  )
where

import Data.Bits (shiftL, shiftR, testBit, xor)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.Word (Word64, Word8)

-- | Strings of 163 bytes that have one FNV-1 hash of 64 bits, 2^18 of them, for the hash function given; see Note
-- [Collisions of FNV-1].
fnvKeys :: (ByteString -> Int) -> [ByteString]
fnvKeys hash = [key byte n | byte <- take 1 fitting, n <- [0 .. 2 ^ blocks - 1]]
  where
    fitting = [byte | byte <- [0 .. 255], hash (key byte 0) == hash (key byte 1)]
    key :: Word8 -> Int -> ByteString
    key byte n = ByteString.concat (ByteString.singleton byte : [if testBit n i then blockB else blockA | i <- [0 .. blocks - 1]])

blocks :: Int
blocks = 18

blockA, blockB :: ByteString
blockA = block [45, 149, 73, 56, 0, 0, 0, 1, 0]
blockB = block [0, 1, 4, 1, 182, 167, 43, 186, 0]

-- | The bytes after each of which the hash has these low bytes, if it had 0 before.
block :: [Word8] -> ByteString
block lows = ByteString.pack (zipWith (\before low -> (179 * before) `xor` low) (0 : lows) lows)

-- | Pairs of numbers that have one hash in hashable 1.3, which multiplies the first with FNV's prime and adds the
-- second to it by exclusive or.
pairKeys :: [(Int, Int)]
pairKeys = [(a, (a * 1099511628211) `xor` 0x5eed) | a <- [1 ..]]

-- | Numbers that differ in their highest bits only, 2^18 of them: as hashes they go the same way through a trie
-- until nearly its end.
strideKeys :: [Int]
strideKeys = [i `shiftL` 46 | i <- [0 .. 2 ^ (18 :: Int) - 1]]

-- | Strings of 163 bytes, as long as those of 'fnvKeys'.
randomFnvKeys :: [ByteString]
randomFnvKeys = [fst (ByteString.unfoldrN (1 + 9 * blocks) (Just . step) (mix n)) | n <- [1 ..]]
  where
    step w = (fromIntegral (w `shiftR` 56), w * 6364136223846793005 + 1442695040888963407)

-- | To compare with 'pairKeys'.
randomPairs :: [(Int, Int)]
randomPairs = [(fromIntegral (mix (2 * n)), fromIntegral (mix (2 * n + 1))) | n <- [1 ..]]

-- | To compare with 'strideKeys'.
randomInts :: [Int]
randomInts = map (fromIntegral . mix) [1 ..]

-- | The n-th number of SplitMix64.
mix :: Word64 -> Word64
mix n = c `xor` (c `shiftR` 31)
  where
    a = n * 0x9e3779b97f4a7c15
    b = (a `xor` (a `shiftR` 30)) * 0xbf58476d1ce4e5b9
    c = (b `xor` (b `shiftR` 27)) * 0x94d049bb133111eb

-- Note [Collisions of FNV-1]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~
-- FNV-1 multiplies the hash with p = 2^40 + 435 and changes its low byte by exclusive or with a byte of the string. If
-- the low byte is known, a byte of the string can give it any value c. With the low bytes c1, c2, ... the hash after n
-- bytes is, besides a part that does not depend on them,
--
--   cn + 256 * (g(c1) * p^(n-2) + ... + g(c(n-1))),   g(c) = c * p `quot` 256.
--
-- Two choices with one sum modulo 2^56 are found in seconds by cancelling the low 19 bits of sums of two and two terms
-- first, and then the rest (Wagner's tree). The two blocks were found in this way. Each ends with the low byte 0, with
-- which the next begins, so any sequence of them collides with any other: 2^18 strings from two blocks. Of the hash
-- before the blocks only the low byte matters: a random salt has 256 cases, and the first byte of the key compensates
-- for it.
