-- |
-- Module      : Rendezvous.Search
-- Description : Figures 23 and 24: the first place of a key
-- Stability   : example
--
-- Every way answers what @elemIndex@ answers, however many copies of the key there are.
--
-- Comparing two machine words would be bound by memory; so each element is digested first (a search among
-- passwords for the one with a given digest does the same), in as many steps as one asks.
module Rendezvous.Search
  ( -- * Input
    Search,
    searchFor,
    planted,

    -- * Ways
    sequential,
    detRendezvous,
    detLeftmost,
  )
where

import Data.Foldable (asum)
import Data.Primitive.PrimArray (PrimArray, generatePrimArray, indexPrimArray, sizeofPrimArray)
import Data.Word (Word64)
import Heddle.Rendezvous
import Rendezvous.Farm (work)
import Rendezvous.Numbers
import Rendezvous.Spans

-- | A list, and what is looked for.
data Search = Search
  { -- | Digested.
    searchKey :: !Word64,
    searchWork :: !Int,
    searchList :: !(PrimArray Int)
  }

-- | Look for a key, with so many steps of work for each element.
searchFor :: Int -> Int -> PrimArray Int -> Search
searchFor steps key = Search (digest steps key) steps

-- Different numbers have different digests.
digest :: Int -> Int -> Word64
digest steps = busy steps . fromIntegral

-- | A key, and a list of so many numbers that has it at this place only.
planted :: Word64 -> Int -> Int -> (Int, PrimArray Int)
planted seed size place = (key, generatePrimArray size (\i -> if i == place then key else below (key - 1) (numberAt seed i)))
  where
    key = maxBound

-- | One walk, until the key is there.
sequential :: Search -> Maybe Int
sequential search = firstIn search (Span 0 (sizeofPrimArray (searchList search)))

-- | Figure 24: threads look at so many elements each, then meet and tell each other what they found, and go
-- on if nobody found anything.
--
-- The paper gives each thread one fragment. Here the fragments are dealt in rounds, thread after thread, so
-- everything left of a round has been looked at before it: the leftmost copy of a round is the leftmost of
-- all, and no thread has to go on alone.
detRendezvous :: Int -> Int -> Search -> Maybe Int
detRendezvous threads interval search = runDet $ do
  channels <- mapM (newChan . ("found " <>) . show) [0 .. threads - 1]
  answers <- par (traverse (\me -> branch (ends channels me) (look me)) [0 .. threads - 1])
  pure (head answers)
  where
    size = sizeofPrimArray (searchList search)

    -- Each thread writes on its own channel and reads all the others.
    ends channels me = (out (channels !! me), map inp (take me channels), map inp (drop (me + 1) channels))

    look :: Int -> (Out s (Maybe Int), [In s (Maybe Int)], [In s (Maybe Int)]) -> Det s (Maybe Int)
    look me (mine, before, after) = go 0
      where
        go begin
          | begin >= size = pure Nothing
          | otherwise = do
            let start = min size (begin + me * interval)
            found <- work (firstIn search) (Span start (min interval (size - start)))
            -- Everybody uses the channels in the same order.
            lefts <- mapM recv before
            send mine found
            rights <- mapM recv after
            case asum (lefts ++ found : rights) of
              Nothing -> go (begin + threads * interval)
              hit -> pure hit

-- | Each span is a task of its own; once one has the key, those to its right are not needed.
detLeftmost :: Int -> Search -> Maybe Int
detLeftmost interval search =
  runDet (leftmost [Closed (work (firstIn search) piece) | piece <- spansOf interval (sizeofPrimArray (searchList search))])

firstIn :: Search -> Span -> Maybe Int
firstIn Search {searchKey = key, searchWork = steps, searchList = list} (Span start size) = go start
  where
    end = start + size
    go i
      | i == end = Nothing
      | digest steps (indexPrimArray list i) == key = Just i
      | otherwise = go (i + 1)
