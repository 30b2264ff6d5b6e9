-- |
-- Module      : Trees
-- Description : Generated directory trees, and where they are built
-- Stability   : test
module Trees
  ( Tree (..),
    Forest (..),
    withTemporary,
    build,
    makeDirectory,
    makeFile,
    makeLink,
    removeTree,
    (</>),
  )
where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.List (nubBy)
import Data.Word (Word8)
import Heddle.Prim.Atomic (Words, fetchAdd, newWords)
import Heddle.Prim.Exception (bracket)
import Heddle.Prim.Global (unsafeGlobal)
import System.Directory (getTemporaryDirectory, makeAbsolute)
import System.Posix.ByteString
  ( closeFd,
    createDirectory,
    createFile,
    createSymbolicLink,
    getProcessID,
  )
import System.Process (callProcess)
import Test.Tasty.QuickCheck hiding (Sorted)

-- | A file, a link and what it says, or a directory.
data Tree = File ByteString | Symlink ByteString ByteString | Directory ByteString [Tree]
  deriving stock (Show)

treeName :: Tree -> ByteString
treeName = \case
  File n -> n
  Symlink n _ -> n
  Directory n _ -> n

-- | What a directory holds.
newtype Forest = Forest [Tree]
  deriving stock (Show)

instance Arbitrary Forest where
  arbitrary = Forest <$> sized (\n -> forest (min 5 (1 + n `quot` 15)))
  shrink (Forest trees) = Forest <$> shrinkList smaller trees
    where
      smaller = \case
        Directory n inside -> File n : map (Directory n) (shrinkList smaller inside)
        Symlink n _ -> [File n]
        File _ -> []

forest :: Int -> Gen [Tree]
forest depth = do
  n <- frequency [(1, pure 0), (4, choose (1, 4)), (2, choose (5, 12))]
  nubBy (\a b -> treeName a == treeName b) <$> vectorOf n (tree depth)

tree :: Int -> Gen Tree
tree depth =
  frequency
    [ (4, File <$> name),
      (1, Symlink <$> name <*> target),
      (if depth > 0 then 4 else 0, Directory <$> name <*> forest (depth - 1))
    ]

-- Anything but NUL and slash: newlines, spaces, no UTF-8, and the longest there may be.
name :: Gen ByteString
name = do
  n <- frequency [(8, choose (1, 4)), (3, choose (5, 30)), (1, pure 255)]
  made <- ByteString.pack <$> vectorOf n byte
  pure (if made `elem` [Char8.pack ".", Char8.pack ".."] then Char8.pack "..." else made)
  where
    byte :: Gen Word8
    byte =
      frequency
        [ (6, elements (ByteString.unpack (Char8.pack "abc.-"))),
          (2, elements [10, 32, 39, 34, 92, 255, 195, 164, 1, 127]),
          (1, arbitrary `suchThat` (`notElem` [0, 47]))
        ]

-- Up, to oneself, to a sibling, nowhere.
target :: Gen ByteString
target = oneof [elements (map Char8.pack [".", "..", "../..", "a", "b", "nowhere/at/all"]), name]

-- | A directory that is removed afterwards.
withTemporary :: String -> (ByteString -> IO a) -> IO a
withTemporary what = bracket make removeTree
  where
    make = do
      n <- fetchAdd serial 0 1
      process <- getProcessID
      folder <- getTemporaryDirectory >>= makeAbsolute
      let path = Char8.pack (folder ++ "/heddle-walk-" ++ show process ++ "-" ++ show n ++ "-" ++ what)
      path <$ makeDirectory path

serial :: Words
serial = unsafeGlobal (newWords 1)
{-# NOINLINE serial #-}

-- | Build it in an existing directory.
build :: ByteString -> [Tree] -> IO ()
build at trees = forM_ trees $ \case
  File n -> makeFile (at </> n)
  Symlink n to -> makeLink to (at </> n)
  Directory n inside -> makeDirectory (at </> n) >> build (at </> n) inside

-- | A path below another.
(</>) :: ByteString -> ByteString -> ByteString
a </> b = ByteString.concat [a, Char8.pack "/", b]

-- | Make one thing.
makeDirectory, makeFile, removeTree :: ByteString -> IO ()
makeDirectory path = createDirectory path 0o755
makeFile path = createFile path 0o644 >>= closeFd
removeTree path = callProcess "rm" ["-rf", Char8.unpack path]

-- | What it says, and where it is.
makeLink :: ByteString -> ByteString -> IO ()
makeLink = createSymbolicLink
