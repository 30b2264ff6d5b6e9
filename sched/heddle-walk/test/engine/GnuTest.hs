-- |
-- Module      : GnuTest
-- Description : Every walk against GNU find, sorted walks against sorting
-- Stability   : test
module GnuTest (tests) where

import Data.ByteString.Char8 qualified as Char8
import Heddle.Walk
import Test.Tasty hiding (after)
import Test.Tasty.QuickCheck hiding (Sorted)
import Trees
import Walks

tests :: TestTree
tests =
  testGroup
    "against GNU find"
    [ testProperty "the same entries, messages and status, whatever the options" againstFind,
      testProperty "the same kinds, inodes, sizes and modes" sameStatus,
      testProperty "sorted output is that of a sequential sorted walk" sortedIsSorted,
      testProperty "a small backlog and buffer change nothing" smallMemory
    ]

-- | Options, and find's words for them.
data Chosen = Chosen WalkOptions [String] [String]

instance Show Chosen where
  show (Chosen o before after) = show (o, before, after)

instance Arbitrary Chosen where
  arbitrary = do
    (follow, before) <- elements [(FollowNone, []), (FollowRoots, ["-H"]), (FollowAll, ["-L"])]
    order <- elements [AnyOrder, Sorted]
    post <- arbitrary
    single <- arbitrary
    least <- frequency [(4, pure 0), (1, choose (1, 3))]
    most <- frequency [(4, pure maxBound), (1, choose (0, 4))]
    distrust <- frequency [(3, pure False), (1, pure True)]
    descriptors <- elements [0, 8]
    alone <- frequency [(4, pure False), (1, pure True)]
    pure $
      Chosen
        defaultWalkOptions
          { walkFollow = follow,
            walkOrder = order,
            walkPostOrder = post,
            walkOneFileSystem = single,
            walkMinDepth = least,
            walkMaxDepth = most,
            walkDistrustTypes = distrust,
            walkDescriptors = descriptors,
            walkSequential = alone
          }
        before
        ( concat
            [ ["-xdev" | single],
              ["-depth" | post],
              if least > 0 then ["-mindepth", show least] else [],
              if most < maxBound then ["-maxdepth", show most] else []
            ]
        )

againstFind :: Forest -> Chosen -> Property
againstFind (Forest trees) (Chosen options before after) =
  withMaxSuccess 200 . ioProperty . withTemporary "gnu" $ \outer -> do
    -- Links go up two levels at most.
    let top = outer </> Char8.pack "p/q"
    makeDirectory (outer </> Char8.pack "p")
    makeDirectory top
    build top trees
    let link = top </> Char8.pack "link to all"
        roots = [top, top </> Char8.pack "missing", link, top `Char8.append` Char8.pack "//"]
    makeLink (Char8.pack ".") link
    ours <- walked options roots
    theirs <- found (before ++ map Char8.unpack roots ++ after)
    pure (counterexample (show (ours, theirs)) (sameSet ours theirs))

sameStatus :: Forest -> Chosen -> Property
sameStatus (Forest trees) (Chosen options before after) =
  withMaxSuccess 100 . ioProperty . withTemporary "status" $ \outer -> do
    let top = outer </> Char8.pack "p/q"
    makeDirectory (outer </> Char8.pack "p")
    makeDirectory top
    build top trees
    (ours, _) <- walkedWith options [top] $ \entry -> do
      inode <- entryInode entry
      kind <- entryKind entry
      status <- entryStatus entry
      let letter = maybe "?" pure (lookup kind [(kindFile, 'f'), (kindDirectory, 'd'), (kindLink, 'l')])
      case status of
        Nothing -> putByteString entry (Char8.pack "none ")
        Just s ->
          putByteString entry . Char8.pack $
            unwords [letter, show inode, show (fileSize s), show (fileMode s `rem` 4096), ""]
      putPath entry 0
      pure Descend
    theirs <-
      ran "find" (before ++ [Char8.unpack top] ++ after ++ ["-printf", "%y %i %s %m %p\\0"])
    -- %m is octal.
    let octal = Char8.unwords . zipWith numeral [0 :: Int ..] . Char8.split ' '
        numeral 3 word = Char8.pack (show (Char8.foldl' (\n c -> 8 * n + fromEnum c - 48) 0 word))
        numeral _ word = word
        theirs' = theirs {outcomeOutput = Char8.concat [octal r `Char8.snoc` '\0' | r <- records (outcomeOutput theirs)]}
    pure (counterexample (show (ours, theirs')) (sameSet ours theirs'))

sortedIsSorted :: Forest -> Bool -> Property
sortedIsSorted (Forest trees) post =
  withMaxSuccess 100 . ioProperty . withTemporary "sorted" $ \top -> do
    build top trees
    ours <- walked defaultWalkOptions {walkOrder = Sorted, walkPostOrder = post} [top]
    theirs <- found [Char8.unpack top]
    pure (records (outcomeOutput ours) === inOrder post (records (outcomeOutput theirs)))

smallMemory :: Forest -> Bool -> Positive Int -> Positive Int -> Property
smallMemory (Forest trees) post (Positive buffer) (Positive backlog) =
  withMaxSuccess 100 . ioProperty . withTemporary "small" $ \top -> do
    build top trees
    ours <-
      walked
        defaultWalkOptions
          { walkOrder = Sorted,
            walkPostOrder = post,
            walkBuffer = buffer,
            walkBacklog = backlog
          }
        [top]
    plain <- walked defaultWalkOptions {walkOrder = Sorted, walkPostOrder = post} [top]
    pure (ours === plain)
