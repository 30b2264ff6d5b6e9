-- | What the type checker refuses, and that it refuses it for the right reason; and that
-- it accepts the same without the mistake. GHC 9.6 says some of the reasons otherwise than 9.0 does.
module TypeTest (tests) where

import Control.Exception (TypeError (..))
import Control.Monad (forM_)
import Data.List (isInfixOf)
import Heddle.Prim.Exception (SomeException, fromException, try)
import Heddle.Rendezvous (Uncaught (..))
import Mistyped qualified
import SafeUse qualified
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, assertFailure, testCase, (@?=))
import Welltyped qualified

{- HLINT ignore "Avoid restricted module" -}
-- For TypeError, which only a test meets.

tests :: TestTree
tests =
  testGroup "types" $
    testCase "aSafeModuleCouldNotImportIt" (SafeUse.squares 10 @?= [i * i | i <- [1 .. 10]]) :
      [ testGroup
          name
          [ testCase "is refused" (refused reasons mistyped),
            testCase "its twin runs" welltyped
          ]
        | (name, reasons, mistyped, welltyped) <- programs
      ]

-- | Each with what the compiler must mention.
programs :: [(String, [String], Assertion, Assertion)]
programs =
  [ ("an end outside its branch", ["Expected: Out s Char", "Actual: Given t (Writing s Char)"], Mistyped.endOutsideItsBranch, Welltyped.endOutsideItsBranch),
    ("a parent's end captured", ["Expected: Out t1 Char", "Actual: Given t (Writing s Char)"], Mistyped.parentsEndCaptured, Welltyped.parentsEndCaptured),
    ("a parent's channel captured", ["type ‘t’ with ‘s’", "c :: Chan s Char"], Mistyped.parentsChannelCaptured, Welltyped.parentsChannelCaptured),
    ("an end in a branch's result", ["type variable ‘t’ would escape its scope"], Mistyped.siblingsEnd, Welltyped.siblingsEnd),
    ("send on a reader's end", ["Expected: Out t Char", "Actual: Given t (Reading s"], Mistyped.sendOnReadersEnd, Welltyped.sendOnReadersEnd),
    ("recv on the writer's end", ["Expected: In t Char", "Actual: Given t (Writing s"], Mistyped.recvOnWritersEnd, Welltyped.recvOnWritersEnd),
    ("send on a channel", ["expected type: Out s Char", "actual type: Chan s"], Mistyped.sendOnChannel, Welltyped.sendOnChannel),
    ("recv on a channel", ["expected type: In s", "actual type: Chan s"], Mistyped.recvOnChannel, Welltyped.recvOnChannel),
    ("send on a grant", ["expected type: Out s Char", "actual type: Writing s"], Mistyped.sendOnGrant, Welltyped.sendOnGrant),
    ("granting another branch's end", ["type ‘t1’ with ‘t’", "o :: Given t (Writing s Char)"], Mistyped.grantEndOfOther, Welltyped.grantEndOfOther),
    ("writing with a reader's end", ["Expected: Chan t Char", "Actual: Given t (Reading s"], Mistyped.writingOfReadersEnd, Welltyped.writingOfReadersEnd),
    ("a channel out of a run", ["type variable ‘s’ would escape its scope", "Chan s"], Mistyped.channelOutOfRun, Welltyped.channelOutOfRun),
    ("a channel of another run", ["type ‘s1’ with ‘s’", "c :: Chan s Char"], Mistyped.channelOfOtherRun, Welltyped.channelOfOtherRun),
    ("the world out of a run", ["type variable ‘s’ would escape its scope", "World s"], Mistyped.worldOutOfRun, Welltyped.worldOutOfRun),
    ("the world in a pure run", ["Expected: Det s1 () | Expected: World s1", "Actual: Det s () | Actual: World s", "w :: World s"], Mistyped.worldInPureRun, Welltyped.worldInPureRun),
    ("the parent's world captured", ["Expected: Det t () | Expected: World t", "Actual: Det s () | Actual: World s", "w :: World s"], Mistyped.parentsWorldCaptured, Welltyped.parentsWorldCaptured),
    ("an effect without the world", ["expected type ‘World s’", "actual type ‘()’"], Mistyped.effectWithoutWorld, Welltyped.effectWithoutWorld),
    ("IO in Det", ["Expected: Det s ()", "Actual: IO ()"], Mistyped.ioInDet, Welltyped.ioInDet),
    ("a value of another type", ["Expected: In t Int | expected type ‘Char’", "Actual: Given t (Reading s Char) | actual type ‘Int’"], Mistyped.wrongElement, Welltyped.wrongElement),
    ("results of other types", ["Expected: Det t Bool | expected type ‘Bool’", "Actual: Det t Char | actual type ‘Char’"], Mistyped.wrongResult, Welltyped.wrongResult),
    ("a search with an end", ["Expected: In s1 Char", "Actual: Given t (Reading s Char)"], Mistyped.closedWithEnd, Welltyped.closedWithEnd),
    ("a search with a channel", ["type ‘s1’ with ‘s’", "c :: Chan s Char"], Mistyped.closedWithChannel, Welltyped.closedWithChannel),
    ("branches coerced", ["type ‘t’ with ‘s’ arising from a use of ‘coerce’"], Mistyped.branchesCoerced, Welltyped.branchesCoerced),
    ("a writer's end for a reader's in a grant of one's own type", ["Out t Char", "In t Char"], Mistyped.grantOfOtherShape, Welltyped.grantOfOtherShape),
    ("a number granted", ["Int is not something a branch can be granted", "inp c, out c", "derive Generic"], Mistyped.grantOfNumber, Welltyped.grantOfNumber),
    ("a function granted", ["Bool -> Bool is not something a branch can be granted"], Mistyped.grantOfFunction, Welltyped.grantOfFunction),
    ("a channel granted, not its ends", ["is not something a branch can be granted", "inp c, out c"], Mistyped.grantOfChannel, Welltyped.grantOfChannel),
    ("numbers in a list in a tuple granted", ["Int is not something a branch can be granted"], Mistyped.grantOfNumbers, Welltyped.grantOfNumbers),
    ("a grant that derives no Generic", ["Bare", "has no Generic to say which fields it has, and is to be granted", "Derive Generic"], Mistyped.grantWithoutGeneric, Welltyped.grantWithoutGeneric),
    ("the world given for a type with the world in it", ["World t has no Generic to say which fields it has, and is to be given to a branch", "Derive Generic"], Mistyped.givenWithoutGeneric, Welltyped.givenWithoutGeneric),
    -- Of its two errors the compiler shows the first, and a program that is compiled all the same throws the second.
    ("a number as a field of a grant", ["Int is not something a branch can be granted | Couldn't match type ‘Given t Int’ with ‘Int’"], Mistyped.fieldThatIsNoGrant, Welltyped.fieldThatIsNoGrant),
    ("two ends given for one of two", ["must have the constructors of what is granted"], Mistyped.grantOfOtherConstructors, Welltyped.grantOfOtherConstructors),
    ("one end given for two", ["must have the constructors of what is granted"], Mistyped.grantOfFewerFields, Welltyped.grantOfFewerFields)
  ]

refused :: [String] -> Assertion -> Assertion
refused reasons program =
  try program >>= \case
    Right () -> assertFailure "it typechecks"
    Left e -> case cause e of
      Just (TypeError text) -> forM_ reasons $ \reason ->
        assertBool ("no " ++ show reason ++ " in:\n" ++ text) (any (`isInfixOf` unwords (words text)) (alternatives reason))
      Nothing -> assertFailure ("not a type error: " ++ show e)

-- | A reason in the words of one compiler, or " | " of another.
alternatives :: String -> [String]
alternatives reason = case break (== '|') reason of
  (one, '|' : others) -> unwords (words one) : alternatives others
  (one, _) -> [unwords (words one)]

-- | What a run threw, and a run inside it.
cause :: SomeException -> Maybe TypeError
cause e = case fromException e of
  Just (Uncaught _ inner) -> cause inner
  Nothing -> fromException e
