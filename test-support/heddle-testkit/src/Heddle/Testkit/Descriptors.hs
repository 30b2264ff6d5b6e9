{-# LANGUAGE CPP #-}

-- |
-- Module      : Heddle.Testkit.Descriptors
-- Description : Opening files; a suite leaves no descriptor open
-- Stability   : internal, exempt from the version policy
--
-- Opens files with any version of unix, lists the descriptors of the process, and fails a suite that leaves one open.
--
-- Owner: the whole process; nothing else may open descriptors meanwhile, so suites run one test at a time.
-- Cost: a system call for each descriptor.
module Heddle.Testkit.Descriptors
  ( openDescriptor,
    openDescriptors,
    noDescriptorIsLeft,
  )
where

import Control.Exception (IOException, try)
import Control.Monad (void)
import Data.List (isSuffixOf)
import Heddle.Testkit.Watchdog (eventually)
import System.Directory (getSymbolicLinkTarget, listDirectory)
import System.Mem (performMajorGC)
import System.Posix.IO (OpenMode, defaultFileFlags, openFd)
import System.Posix.Types (Fd)
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (testCase)

-- | Open an existing file.
--
-- [Throws]: 'IOError'.
openDescriptor :: FilePath -> OpenMode -> IO Fd
#if MIN_VERSION_unix(2,8,0)
openDescriptor path how = openFd path how defaultFileFlags
#else
openDescriptor path how = openFd path how Nothing defaultFileFlags
#endif

-- | Each descriptor's number and target. The one that lists them is closed by then, and GHC's own timer, which opens
-- late, is left out.
openDescriptors :: IO [String]
openDescriptors = listDirectory "/proc/self/fd" >>= fmap (filter (not . isSuffixOf "[timerfd]") . concat) . mapM target
  where
    target fd = either (const [] :: IOException -> [String]) (\what -> [fd ++ " " ++ what]) <$> try (getSymbolicLinkTarget ("/proc/self/fd/" ++ fd))

-- | The last test of a suite, given the descriptors from before the first. Sockets of the network package whose closing was
-- interrupted are left to the collector.
noDescriptorIsLeft :: [String] -> TestTree
noDescriptorIsLeft before =
  testCase "no descriptor is left" . void $
    eventually ("at most these descriptors: " ++ show before) (performMajorGC >> openDescriptors) ((<= length before) . length)
