-- | The search of chapter 13 with an 'Async' where a semaphore has a unit left, the semaphore being an 'MVar'.
--
-- The first argument is the number of units: as many threads as run besides the main one.
--
-- It is kept as the chapter has it, and so are its faults. It is not deterministic: a hit or an error in a
-- search without a unit overrides the unfinished searches to its left. A thread that is cancelled before
-- 'finally' is installed never gives its unit back.
module Main
  ( main,
  )
where

import Control.Concurrent.Async (Async, wait, withAsync)
import Control.Concurrent.MVar (MVar, modifyMVar, newMVar)
import Control.Exception (finally)
import Data.List (sort)
import System.Directory (doesDirectoryExist, getDirectoryContents)
import System.Environment (getArgs)
import System.FilePath ((</>))

main :: IO ()
main = do
  [n, s, d] <- getArgs
  sem <- newNBSem (read n)
  find sem s d >>= print

newtype NBSem = NBSem (MVar Int)

newNBSem :: Int -> IO NBSem
newNBSem i = do
  m <- newMVar i
  return (NBSem m)

tryAcquireNBSem :: NBSem -> IO Bool
tryAcquireNBSem (NBSem m) =
  modifyMVar m $ \i ->
    if i == 0
      then return (i, False)
      else let !z = i - 1 in return (z, True)

releaseNBSem :: NBSem -> IO ()
releaseNBSem (NBSem m) =
  modifyMVar m $ \i ->
    let !z = i + 1 in return (z, ())

-- The test is as the chapter has it.
{- HLINT ignore find "Use elem" -}
find :: NBSem -> String -> FilePath -> IO (Maybe FilePath)
find sem s d = do
  fs <- getDirectoryContents d
  let fs' = sort $ filter (`notElem` [".", ".."]) fs
  if any (== s) fs'
    then return (Just (d </> s))
    else do
      let ps = map (d </>) fs'
      foldr (subfind sem s) dowait ps []
  where
    dowait as = loop (reverse as)

    loop [] = return Nothing
    loop (a : as) = do
      r <- wait a
      case r of
        Nothing -> loop as
        Just p -> return (Just p)

subfind ::
  NBSem ->
  String ->
  FilePath ->
  ([Async (Maybe FilePath)] -> IO (Maybe FilePath)) ->
  [Async (Maybe FilePath)] ->
  IO (Maybe FilePath)
subfind sem s p inner asyncs = do
  isdir <- doesDirectoryExist p
  if not isdir
    then inner asyncs
    else do
      q <- tryAcquireNBSem sem
      if q
        then do
          let dofind = find sem s p `finally` releaseNBSem sem
          withAsync dofind $ \a -> inner (a : asyncs)
        else do
          r <- find sem s p
          case r of
            Nothing -> inner asyncs
            Just _ -> return r
