{-# OPTIONS_GHC -Wno-redundant-constraints #-}

-- Since hashable 1.4 an instance of Hashable implies one of Eq.

-- | N keys put into a HashMap, one by one: keys that were chosen to collide in hashable's hash, or random ones of the
-- same kind; plain, or keyed by 'Keyed'.
--
--   bench-bytes-flood WAY N
--
-- The answer is the size of the table, N. Without a key, the strings and the pairs take quadratic time: give them a
-- small N.
module Main
  ( main,
  )
where

import Data.ByteString (ByteString)
import Data.Foldable qualified as Foldable
import Data.HashMap.Strict qualified as HashMap
import Data.Hashable (Hashable, hash)
import Heddle.Bytes.Hash (Keyed (..))
import Heddle.Measure.Contender (contender, contenderMain, oneNumber)
import Heddle.Testkit.CollidingKeys

main :: IO ()
main =
  contenderMain (oneNumber "N") . map (uncurry contender) $
    [ ("keyed-strings", table (map Keyed strings)),
      ("keyed-strings-random", table (map Keyed randomStrings)),
      ("keyed-pairs", table (map Keyed pairs)),
      ("keyed-pairs-random", table (map Keyed otherPairs)),
      ("keyed-ints", table (map Keyed ints)),
      ("keyed-ints-random", table (map Keyed otherInts)),
      ("plain-strings", table strings),
      ("plain-strings-random", table randomStrings),
      ("plain-pairs", table pairs),
      ("plain-pairs-random", table otherPairs),
      ("plain-ints", table ints),
      ("plain-ints-random", table otherInts)
    ]

-- | How many keys there are of each kind: 2^17, and one for a run before.
most :: Int
most = 131073

strings, randomStrings :: [ByteString]
strings = take most (fnvKeys hash)
randomStrings = take most randomFnvKeys

pairs, otherPairs :: [(Int, Int)]
pairs = take most pairKeys
otherPairs = take most randomPairs

ints, otherInts :: [Int]
ints = take most strideKeys
otherInts = take most randomInts

-- | The keys are made before the first of the two runs, and stay.
table :: (Eq k, Hashable k) => [k] -> Int -> IO Int
table keys n
  | length keys < n = fail ("there are only " <> show most <> " keys")
  | otherwise = pure (HashMap.size (Foldable.foldl' (\m k -> HashMap.insert k () m) HashMap.empty (take n keys)))
{-# INLINE table #-}
