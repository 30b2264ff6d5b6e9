-- | The search of chapter 13 with an 'Async' where a semaphore has a unit left, the semaphore being an 'IORef'.
--
-- Four units for each capability, and none if there is only one. It is kept as the chapter has it, with
-- the faults of @findpar2@; and its bang is below a lazy 'atomicModifyIORef', so that releases that
-- nobody reads pile up as thunks.
module Main
  ( main,
  )
where

import Control.Concurrent.Async (Async, wait, withAsync)
import Control.Exception (finally)
import Data.IORef (IORef, atomicModifyIORef, newIORef)
import Data.List (sort)
import GHC.Conc (getNumCapabilities)
import System.Directory (doesDirectoryExist, getDirectoryContents)
import System.Environment (getArgs)
import System.FilePath ((</>))

main :: IO ()
main = do
  [s, d] <- getArgs
  n <- getNumCapabilities
  sem <- newNBSem (if n == 1 then 0 else n * 4)
  find sem s d >>= print

newtype NBSem = NBSem (IORef Int)

newNBSem :: Int -> IO NBSem
newNBSem i = do
  m <- newIORef i
  return (NBSem m)

tryWaitNBSem :: NBSem -> IO Bool
tryWaitNBSem (NBSem m) =
  atomicModifyIORef m $ \i ->
    if i == 0
      then (i, False)
      else let !z = i - 1 in (z, True)

signalNBSem :: NBSem -> IO ()
signalNBSem (NBSem m) =
  atomicModifyIORef m $ \i ->
    let !z = i + 1 in (z, ())

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
      q <- tryWaitNBSem sem
      if q
        then do
          let dofind = find sem s p `finally` signalNBSem sem
          withAsync dofind $ \a -> inner (a : asyncs)
        else do
          r <- find sem s p
          case r of
            Nothing -> inner asyncs
            Just _ -> return r
