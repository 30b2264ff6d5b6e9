-- |
-- Module      : Rendezvous.Farm
-- Description : Work in branches of a par
-- Stability   : example
--
-- The two shapes that most of the programs have: branches that only compute (Figs 20, 22), and a server that
-- deals jobs to workers and collects their results, in turn (Fig. 27).
module Rendezvous.Farm
  ( work,
    together,
    farm,
  )
where

import Control.DeepSeq (NFData)
import Control.Monad (zipWithM_)
import Heddle.Rendezvous

-- | Compute this here and now, rather than wherever its value is first looked at.
work :: (a -> b) -> a -> Det s b
work compute a = pure a >>= \given -> pure $! compute given

-- | A branch for each, without channels; their results, in order.
together :: (a -> b) -> [a] -> Det s [b]
together compute = par . traverse (\a -> branch () (\() -> work compute a))

-- | Figure 27: a server and so many workers, with two channels between it and each. Job after job goes to
-- the next worker, whose result is added before its next job is sent; so the results are added in the order
-- of the jobs, and nobody's speed shows.
--
-- A worker ends when the server has ended: then nobody is left to send it a job.
farm :: (NFData job, NFData result) => Int -> (job -> result) -> (total -> result -> total) -> total -> [job] -> Det s total
farm workers compute add start jobs = do
  toWorkers <- mapM (newChan . ("jobs " <>) . show) [1 .. n]
  toServer <- mapM (newChan . ("results " <>) . show) [1 .. n]
  par $
    branch (map out toWorkers, map inp toServer) server
      <* traverse (\(to, from) -> branch (inp to, out from) worker) (zip toWorkers toServer)
  where
    n = max 1 (min workers (length jobs))
    (firsts, others) = splitAt n jobs

    server (outs, ins) = do
      zipWithM_ send outs firsts
      total <- collect start (zip3 (cycle outs) (cycle ins) others)
      -- Who has the oldest job is the one after the last that was given one.
      let turn = length others `rem` n
      finish total (take (length firsts) (drop turn (cycle ins)))

    collect !total [] = pure total
    collect !total ((o, i, job) : rest) = do
      result <- recv i
      send o job
      collect (add total result) rest

    finish !total [] = pure total
    finish !total (i : rest) = recv i >>= \result -> finish (add total result) rest

    worker (jobsIn, resultsOut) =
      tryDet (recv jobsIn) >>= \case
        Left WriterEnded {} -> pure ()
        Right job -> send resultsOut (compute job) >> worker (jobsIn, resultsOut)
