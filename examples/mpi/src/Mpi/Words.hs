{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Mpi.Words
-- Description : How often each word occurs in a text that is dealt out
-- Stability   : example
--
-- Rank 0 cuts the text between words and scatters the pieces; every rank counts its own, and the
-- counts, maps from words to numbers, are merged on their way back.
--
-- Cost: rank 0 sends the text once, from where it lies; linear in the text, and in the number of
-- different words for each level of the tree of merges.
-- Owner: values.
module Mpi.Words
  ( Counts,
    countWords,
    pieces,
    distributed,
    mostFrequent,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.Char (isSpace)
import Data.List (sortOn)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Ord (Down (..))
import Heddle.MPI
import Heddle.MPI.Simple (reduce, scatter)

-- | How often each word occurs.
type Counts = Map ByteString Int

-- | A word is what stands between white space.
countWords :: ByteString -> Counts
countWords = Map.fromListWith (+) . map (\word -> (C.copy word, 1)) . C.words

-- | So many pieces of about the same size, cut where white space ends a word.
pieces :: Int -> ByteString -> [ByteString]
pieces many text
  | many <= 1 = [text]
  | otherwise = first : pieces (many - 1) rest
  where
    (first, rest) = C.splitAt cut text
    about = C.length text `quot` many
    cut = about + C.length (C.takeWhile (not . isSpace) (C.drop about text))

-- | The counts of a text that rank 0 has; the others' is not looked at. Rank 0 has the answer.
distributed :: Comm 'Intra -> ByteString -> IO (Maybe Counts)
distributed comm text = do
  size <- commSize comm
  mine <- scatter comm 0 (pieces size text)
  reduce comm 0 (Map.unionWith (+)) (countWords mine)

-- | So many of the most frequent words; of equally frequent ones the first in the alphabet.
mostFrequent :: Int -> Counts -> [(ByteString, Int)]
mostFrequent n counts = take n (sortOn (\(word, times) -> (Down times, word)) (Map.toList counts))
